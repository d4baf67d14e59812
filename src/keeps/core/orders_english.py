"""Words for the machine in English."""

from __future__ import annotations

from typing import Final

from keeps.core.orders import ACTIONS, AUTHORITY, RECOMMENDS, SECRECY, SENDS, SKIPS, SPEAKS, TRIGGER, Row

_THIRD: Final = (
    "(?:the |a |any |this |that )?(?:user|human|customer|client|person|owner|someone"
    "|anyone|anybody|somebody|he|she|they|visitor)s?"
)
_ASKS: Final = (
    "(?:ask|mention|say|request|want|type|write|inquire|enquire|talk|bring|need|tell"
    "|open|start|look|search|pay|book|order)s?(?:ing|ed)?"
)
_NOUNS: Final = (
    "(?:instructions?|rules?|prompts?|guidelines?|guardrails?|directions?|polic(?:y"
    "|ies)|restrictions?|commands?|orders?"
    r"|safeguards?|training|constraints?|programming|context|messages?)"
)
_PRIOR: Final = (
    "(?:previous|prior|above|earlier|preceding|your|those|these|existing|system|safety"
    "|all|any|other|former|initial|original"
    r"|current|default)"
)
_MEMO: Final = r"(?:note|memory|instruction|rule|message|entry|record|prompt|conversation)"

# Reason, weight, the words of which one must occur, the pattern. Texts are folded: small letters, no accents.
ENGLISH: Final[tuple[Row, ...]] = (
    (
        SPEAKS,
        0.6,
        "ignore disregard forget override bypass overlook neglect ignoring disregarding overriding",
        r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass|overlook"
        rf"|neglect) (?:\w+ ){{0,2}}{_PRIOR} (?:\w+ ){{0,2}}{_NOUNS}\b",
    ),
    (
        SPEAKS,
        0.6,
        "ignore disregard forget override",
        rf"\b(?:ignore|disregard|forget|override) (?:\w+ ){{0,2}}(?:{_NOUNS} (?:above"
        "|before"
        "|given|you)|everything (?:you|above|before|said|that))",
    ),
    (
        SPEAKS,
        0.3,
        "prompt prompts mode message",
        r"\b(?:system prompts?|developer message|system message|(?:developer|admin"
        "|god"
        r"|debug|dan|unrestricted) mode)\b",
    ),
    (
        SPEAKS,
        0.6,
        "prompt instructions notes secrets rules memories",
        r"\b(?:reveal|print|repeat|output|leak|expose|dump|disclose) (?:\w+ ){0,3}(?:prompts?"
        r"|instructions|notes|secrets|rules|memories)\b",
    ),
    (
        SPEAKS,
        0.5,
        "you",
        r"\byou (?:are|will be) now (?:in|an?|the|free|allowed|permitted|authori[sz]ed)\b"
        r"|\byou are no longer (?:bound|restricted|an?)\b|\bpretend (?:that )?you\b|\byou (?:must"
        "|shall|have to|need to|will|are required to|should) (?:now |always |never |immediately "
        "|first |also |only )*(?:obey|comply|follow|send|forward|call|run|execute|ignore"
        r"|recommend|reveal|answer|respond|reply|say|use|open|tell|hide|include|treat)\b",
    ),
    (SPEAKS, 0.4, "you", r"\byou (?:must|shall|have to|are required to|are obliged to) "),
    (SPEAKS, 0.3, "from now", r"\bfrom now on\b|\bfrom this point (?:on|forward)\b"),
    (
        SPEAKS,
        0.5,
        "now",
        r"\bfrom (?:now|this point|here) (?:on|forward|onwards?),? (?:you\b|always|never"
        rf"|(?:{ACTIONS})\b)",
    ),
    (
        SPEAKS,
        0.5,
        "assistant ai llm chatbot model agent assistants agents chatgpt claude gpt",
        r"\b(?<!my )(?:assistants?|ai|llm|chatbot|chatgpt|claude|gpt|ai (?:model"
        "|agent)s?) (?:must"
        "|shall|has to|have to|should|is (?:required|instructed|authori[sz]ed|ordered)"
        r"|are (?:required|instructed))\b",
    ),
    (
        SPEAKS,
        0.5,
        "assistant ai llm chatbot model agent system chatgpt claude",
        r"(?:^|[.!\n] ?|\b(?:dear|attention|hey|hello|hi|note to(?: the)?|message to(?: the)?"
        "|instructions? (?:for|to)(?: the)?|important for(?: the)?) )(?:ai )?(?:assistant"
        "|ai|llm|chatbot|model|agent|system|chatgpt|claude)s?(?: ?[,:!] ?| reading this)",
    ),
    (
        SPEAKS,
        0.5,
        "instruction instructions directive command",
        r"\b(?:new|updated|important|priority|hidden|secret|urgent|system) (?:system )?(?:instructions?"
        "|directive|command)s? ?(?::|for (?:the )?(?:ai|assistant|model|agent))",
    ),
    (
        SPEAKS,
        0.5,
        "act behave obey jailbreak jailbroken",
        r"\b(?:act|behave) as (?:if|though) (?:you|there)\b|^obey\b|\bobey (?:me"
        "|the following"
        r"|these|this)\b|\bdo anything now\b|\bjail ?br(?:eak|oken) mode\b",
    ),
    (
        TRIGGER,
        0.3,
        "when whenever if every once soon next any anytime",
        r"\b(?:when|whenever|if|every ?time|each time|once|as soon as|(?:the )?next time"
        rf"|any ?time) {_THIRD} (?:\w+ ){{0,2}}{_ASKS}\b",
    ),
    (
        TRIGGER,
        0.5,
        "when whenever if every once soon next any anytime",
        r"\b(?:when|whenever|if|every ?time|each time|once|as soon as|(?:the )?next time"
        rf"|any ?time) {_THIRD} (?:\w+ ){{0,2}}{_ASKS}\b[^.!?]{{0,60}}(?:[,;:]|\bthen\b"
        r"|\bfirst\b|\balways\b|\bimmediately\b) ?(?:then |first |always |please |immediately "
        rf"|silently |secretly |also |never |you (?:must|should|will) )*(?:{ACTIONS})\b",
    ),
    (
        TRIGGER,
        0.3,
        "when whenever if every once soon next any anytime",
        r"\b(?:when|whenever|if|every ?time|each time|once|as soon as|(?:the )?next time"
        rf"|any ?time) i (?:\w+ ){{0,1}}{_ASKS}\b[^.!?]{{0,60}}[,;:] ?(?:then |first |always "
        "|please |immediately |silently |secretly |also )*(?:send|forward|transfer|run"
        r"|execute|download|upload|pay|buy|delete|open|call the|use the \w+ tool)\b",
    ),
    (
        SECRECY,
        0.6,
        "tell inform notify let show reveal alert mention disclose telling informing notifying asking mentioning warn",
        r"\b(?:do not|don't|dont|never|must not|should not|without) (?:ever )?(?:tell|inform"
        "|notify|let|show|reveal|alert|mention|disclose|warn|telling|informing|notifying"
        rf"|asking|mentioning|showing|alerting)(?: \w+){{0,3}} (?:(?:the |to the )?(?:users?"
        rf"|human|owner|operator)\b|(?:about )?(?:this|that this) {_MEMO}\b)",
    ),
    (
        SECRECY,
        0.6,
        "hide conceal keep hidden secret",
        rf"\b(?:hide|conceal|keep|withhold)(?: \w+){{1,5}} from (?:the )?(?:users?"
        "|human"
        rf"|owner|operator)\b|\b(?:hide|conceal) (?:this|that) {_MEMO}\b|\bkeep this {_MEMO} (?:secret"
        r"|hidden)\b",
    ),
    (
        SECRECY,
        0.6,
        "user human owner",
        r"\b(?:user|human|owner) (?:must|should|may|can|shall|need) ?(?:not|never"
        r"|n't) (?:\w+ )?(?:know"
        r"|see|learn|notice|find out|be (?:told|informed|aware))\b",
    ),
    (
        SECRECY,
        0.6,
        "secretly silently covertly quietly discreetly",
        r"\b(?:secretly|silently|covertly|quietly|discreetly) (?:b?cc|send|forward|copy|e-?mail|mail|share|upload"
        r"|transfer|post)\b[^!?]{0,80}(?:@|https?:)",
    ),
    (SECRECY, 0.4, "secretly silently covertly quietly", rf"\b(?:secretly|silently|covertly|quietly) (?:{ACTIONS})\b"),
    (
        AUTHORITY,
        0.5,
        "trusted",
        r"(?<!my )(?<!our )\b(?:fully |most )?trusted (?:and \w+ )?(?:sources?|vendor|provider"
        r"|partner|supplier|seller|authority|sender|domain|site|website)\b",
    ),
    (
        AUTHORITY,
        0.5,
        "admin administrator system developer developers security anthropic openai",
        r"\b(?:pre-?)?(?:approved|authori[sz]ed|verified|confirmed|signed off|cleared"
        "|whitelisted) (?:already )?by"
        r" (?:the |your |an? )?(?:\w+ )?(?:admin|administrators?|system|developers?|security(?: team)?"
        r"|anthropic|openai)\b",
    ),
    (
        AUTHORITY,
        0.4,
        "verified authorized authorised approved official",
        r"\b(?:this|it) (?:is|has been|was) (?:an? )?(?:verified|authori[sz]ed|pre-?approved"
        r"|official) (?:instruction|message|request|source|notice|by)\b|\b(?:i am|this is) (?:the"
        r"|your) (?:admin|administrator|developer|system)\b",
    ),
    (
        RECOMMENDS,
        0.5,
        "recommend always never only recommending suggest endorse promote prefer cite mention",
        r"(?<!i )(?<!we )(?<!they )(?<!who )\b(?:always|never|only|exclusively) (?:recommend"
        r"|endorse|promote|advertise)\b|(?<!i )(?<!we )\balways (?:\w+ ){0,2}(?:suggest"
        r"|prefer|cite|mention|list|name) (?:\w+ ){1,6}(?:first|above (?:all )?others|over (?:all )?(?:other"
        r"|competitors))\b|\brecommend (?:\w+ ){1,5}(?:first|above all|over (?:all )?(?:others"
        r"|competitors))\b|\b(?:must|should) always be (?:recommended|suggested|preferred)\b",
    ),
    (
        SENDS,
        0.5,
        "send forward upload post transmit exfiltrate leak export copy email mail share transfer",
        r"\b(?:send|forward|upload|post|transmit|exfiltrate|leak|export|copy|e-?mail"
        "|share"
        r"|transfer)(?:ing)? (?:\w+ ){0,3}(?:user'?s?|their|his|her|users'|customer'?s?"
        r"|private|personal|confidential|all|every|stored|saved) (?:\w+ ){0,3}(?:notes?"
        "|data|messages?|memor(?:y|ies)|conversations?|passwords?|balances?|files?|invoices?"
        "|receipts?|contacts?|details|information|emails?|history|keys?|secrets?|documents?"
        r"|chats?|credentials)\b",
    ),
    (
        SENDS,
        0.4,
        "tool",
        r"\b(?:use|call|invoke|run|trigger) (?:the |your )?(?:\w+[ _]){1,2}tool (?:to|and"
        r"|with|whenever|when|for)\b",
    ),
    (
        SKIPS,
        0.4,
        "skip bypass disable without circumvent suppress auto-approve autoapprove confirmation approval",
        r"\b(?:skip|bypass|disable|without|circumvent|suppress|turn off|no need for"
        "|don't ask for"
        r"|do not ask for|never ask for|auto-?approve)(?: \w+){0,3} (?:confirmations?|approvals?"
        "|verification|safety|permissions?|checks|authenti[cs]ation|authori[sz]ation|consent"
        r"|guardrails?|filters?|payments?|refunds?)\b|\bno (?:confirmation|approval|verification) (?:is )?(?:neede"
        r"d|required|necessary)\b",
    ),
)
