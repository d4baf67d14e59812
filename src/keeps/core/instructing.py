"""What a person may tell the assistant to do: how it speaks, and nothing else.

Both must hold: the text is about language, tone, length, format, units, names or accessibility, and it holds no word of
what memory may never decide: tools, sending and fetching, money, permissions, hiding, safety, memory itself, triggers.
"""

from __future__ import annotations

import re
from typing import Final

from keeps.core.folding import ARABIC, plain_words

_MANNER_WORDS: Final = (
    r"\b(?:"
    # language
    r"(?:in|use|into|speak|write|answer in|reply in) (?:\w+ )?(?:english|german|french"
    "|spanish|italian|portuguese|dutch|polish"
    "|arabic|chinese|mandarin|japanese|korean|turkish|russian|ukrainian|hindi|swedish"
    "|danish|norwegian|finnish|greek|hebrew)"
    r"|languages?|dialect|spelling|translat\w+|grammar|vocabulary|idioms?|jargon|plain (?:words"
    "|language|english)|simple (?:words|language)"
    # tone
    "|tone|formal(?:ly|ity)?|informal(?:ly)?|polite(?:ly)?|friendly|casual(?:ly)?"
    r"|humou?r|jokes?|sarcas\w+|emojis?|exclamation marks?"
    r"|direct|blunt(?:ly)?|warm|encouraging|patient|swear\w*|flatter\w*|apologi[sz]\w*"
    "|praise|slang|first name basis"
    # length and format
    "|brief(?:ly)?|short(?:er)?|concise(?:ly)?|long(?:er)?|lengthy|detail(?:s|ed)?"
    "|verbose|sentences?|paragraphs?|words or less"
    "|bullets?|bullet points?|lists?|tables?|markdown|headings?|headlines?|bold|italics?"
    r"|numbered|format(?:ted|ting)?|summar\w+|code blocks?"
    "|step by step|steps|examples?|citations?|footnotes?|plain text|capitals?|upper ?case"
    "|lower ?case|dashes"
    # units
    "|metric|imperial|celsius|fahrenheit|kilomet(?:er|re)s?|miles|units?|24[- ]hour"
    "|12[- ]hour|date format|dates?|time ?zones?|currency"
    r"|euros?|dollars|pounds"
    # names and accessibility
    "|(?:call|address|refer to) me|my name|nickname|pronouns?|surname|first name|screen ?reader"
    r"|dyslexi\w+|alt text|colou?r ?blind"
    r"|large (?:print|text)|accessib\w+|hard of hearing|read aloud"
    # Spanish
    "|(?:en|usa|habla|responde en) (?:ingles|espanol|castellano|frances|aleman|italiano"
    "|portugues|catalan|arabe|chino)|idioma|tono"
    r"|(?:in)?formal(?:mente)?|tutea\w*|usted|breves?|breve(?:dad|mente)|cort[oa]s?"
    "|larg[oa]s?|concis[oa]s?|detalles?|listas?|vinetas|tablas?|negrita"
    "|frases|parrafos?|ejemplos?|sistema metrico|kilometros|millas|llamame|mi nombre"
    "|pronombres?|lector de pantalla|dislexia"
    r"|emoticonos?|chistes|ortografia"
    # German
    "|(?:auf|in) (?:deutsch|englisch|franzosisch|spanisch|italienisch|arabisch|chinesisch"
    "|turkisch|russisch)|sprache|tonfall|ton|hoflich"
    r"|formlich|duze\w*|sieze\w*|du-form|kurz(?:e|er|en|es)?|knapp(?:e|en)?|lang(?:e"
    r"|er|en)?|ausfuhrlich\w*|satze\w*|absatze\w*|stichpunkte\w*"
    r"|stichworte\w*|listen?|tabellen?|fett|format\w*|beispiele?\w*|metrisch\w*|kilometer\w*"
    r"|meilen|nenn\w* mich|sprich mich|mein name"
    r"|vorname\w*|pronomen|vorlese\w*|screenreader|legasthenie|leichte[r]? sprache"
    "|rechtschreibung|witze|emojis?|24-stunden"
    # French
    r"|en (?:francais|anglais|allemand|espagnol|italien|arabe|chinois)|langue|ton|formel\w*"
    r"|tutoie\w*|vouvoie\w*|poli(?:e|ment)?|bref|breves?"
    r"|brievement|courte?s?|longues?|concise?s?|detaille\w*|phrases|paragraphes?|listes?"
    "|puces|tableaux?|gras|exemples?|systeme metrique"
    "|kilometres?|appelle[- ]moi|appelez[- ]moi|mon (?:nom|prenom)|pronoms?|lecteur d'ecran"
    r"|dyslexi\w*|orthographe|blagues|emojis?"
    r")\b"
    # Chinese and Arabic
    "|用(?:中文|英文|英语|法语|德语|简体|繁体|粤语)|简(?:短|洁)|簡(?:短|潔)"
    "|详细|語氣|语气|正式|礼貌|列表|表格|格式|摄氏|公里|公制|叫我|称呼我|稱呼我"
    "|表情符号"
    "|بال(?:عربية|انجليزية|إنجليزية|فرنسية|فصحى)|باللغة|لغة|رسمي|مختصر|بايجاز|بإيجاز"
    "|قصيرة|قصير|مفصل|قائمة|جدول|نبرة|نادني|نادي?ني|كيلومتر|مئوية"
)
_REFUSED_WORDS: Final = (
    r"\b(?:"
    # tools, sending, fetching
    r"tools?|api|plugins?|functions?|commands?|scripts?|execut\w+|run|install\w*|shell"
    "|terminal|browser|search the web|web ?sites?|links?"
    r"|send\w*|sent|forward\w*|e-?mails?|mail|mails|upload\w*|download\w*|fetch\w*"
    r"|post|posts|publish\w*|share|shares|sharing|open|opens|visit\w*"
    r"|click\w*|https?|www|url\w*|webhooks?|message (?:him|her|them|\w+ on)|notify"
    r"|contact|call (?!me\b)\w+|text (?:him|her|them|my)|submit\w*"
    r"|delete\w*|remove|erase"
    # money
    r"|pay\w*|buy\w*|purchas\w*|order (?:the|a|from|me)|money|transfer\w*|refund\w*"
    r"|invoices?|bank|wallet|donat\w+|subscri\w+|price limit|budget"
    # permissions, hiding, safety, memory
    r"|permissions?|approv\w+|authori[sz]\w+|confirm\w*|consent|grants?|access(?! ?ib)"
    r"|admin\w*|privileges?|password\w*|credentials?"
    r"|secret\w*|hide|hides|hidden|conceal\w*|withhold\w*|without telling|don't tell"
    "|do not tell|never tell|never mention|don't mention|do not mention"
    "|safety|safeguards?|guardrails?|filters?|polic(?:y|ies)|rules?|restrictions?"
    "|disclaimers?|warnings?|moderation|unrestricted|jailbreak"
    "|ignore|disregard|override|bypass|system prompt|instructions|memor(?:y|ies)|remember"
    r"|forget|recommend\w*|trust\w*"
    # triggers
    r"|when|whenever|if|once|every ?time|each time|as soon as|unless|until|after i|before i"
    # Spanish
    r"|herramientas?|envi\w+|reenvi\w+|manda\w*|correos?|abre|abrir|visita\w*|enlaces?"
    r"|descarga\w*|sube|subir|comparte|compartir|ejecuta\w*"
    r"|instala\w*|borra\w*|paga\w*|compra\w*|dinero|transfier\w+|facturas?|permisos?"
    r"|aproba\w+|confirma\w*|autoriza\w*|secreto\w*|oculta\w*"
    r"|esconde\w*|sin decir\w*|no (?:le )?dig\w+|seguridad|reglas?|restricciones|ignora\w*"
    r"|olvida\w*|memoria|recuerda|recomienda\w*|cuando|si|cada vez"
    r"|siempre que|contrasena\w*"
    # German
    r"|werkzeuge?|tool\w*|send\w+|schick\w*|weiterleit\w*|leite\w*|mails?|offne\w*"
    r"|offnen|besuch\w*|klick\w*|lade|hochlad\w*|herunterlad\w*|teile|fuhre"
    r"|ausfuhren|installier\w*|losche\w*|zahl\w*|bezahl\w*|kauf\w*|bestell\w*|geld"
    r"|uberweis\w*|rechnung\w*|berechtigung\w*|genehmig\w*|bestatig\w*"
    r"|freigabe\w*|zustimm\w*|geheim\w*|verheimlich\w*|verschweig\w*|verbirg\w*|versteck\w*"
    r"|sag\w* (?:\w+ ){0,3}nicht\w*|sicherheit\w*|regeln?|filter|warnung\w*"
    r"|ignorier\w*|vergiss|gedachtnis|merke?|erinner\w*|empfiehl|empfehl\w*|wenn|sobald"
    r"|falls|immer wenn|jedes mal|passwort\w*"
    # French
    r"|outils?|envoi\w*|envoy\w*|transfer\w*|courriels?|ouvre\w*|ouvrir|visite\w*|clique\w*"
    r"|liens?|telecharge\w*|partage\w*|execute\w*|installe\w*"
    r"|supprime\w*|paie|paye\w*|payez|achet\w*|argent|virement\w*|factures?|autorisations?"
    r"|approuv\w*|confirm\w*|secrets?|cache\w*|dissimul\w*"
    r"|sans (?:le |lui )?dire|ne dis\w*|securite|regles?|restrictions?|ignore[rz]?"
    r"|oublie[rz]?|memoire|souviens|recommande\w*|quand|lorsqu\w*|si"
    r"|chaque fois|des que|mots? de passe"
    r")\b"
    # Chinese and Arabic
    "|工具|发送|转发|发给|邮件|打开|访问|点击|下载|上传|分享|执行|安装|删除"
    "|支付|付款|购买|转账|钱|权限|批准|确认|授权|秘密|隐瞒|隐藏|不要告诉|别告诉"
    "|安全|规则|忽略"
    r"|无视|记忆|记住|忘记|推荐|当|如果|每次|每当|只要|密码"
    "|اداة|أداة|ارسل|أرسل|حول|بريد|افتح|زر|رابط|انقر|حمل|ارفع|شارك|نفذ|احذف|ادفع|اشتر"
    "|مال|صلاحي|اذن|موافقة|تاكيد|سر|اخف|لا تخبر|امان|قواعد|قيود|تجاهل|ذاكرة"
    r"|تذكر|انس|اوص|عندما|اذا|كلما|حين|كلمة (?:السر|المرور)"
)
_MANNER: Final = re.compile(_MANNER_WORDS.translate(ARABIC))
_REFUSED: Final = re.compile(_REFUSED_WORDS.translate(ARABIC))


def may_instruct(text: str) -> bool:
    """True when an instruction asks for no more than a manner of speaking. What is in a language without rules does not
    count as one, so it stays a note that nobody follows."""
    plain = plain_words(text)
    return _MANNER.search(plain) is not None and _REFUSED.search(plain) is None
