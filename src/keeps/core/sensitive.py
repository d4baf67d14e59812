"""Sensitive matters and personal data, by the words people use for them in English, German, Spanish and French.

Only words that hardly mean anything else are listed, so much is missed and little is found wrongly. One list serves
what is kept and what is asked: a sensitive memory may be used when the question is about the same matter.
"""

from __future__ import annotations

import re
from typing import Final

from keeps.core.folding import plain_words

TOPICS: Final = frozenset(
    "health sex religion politics union ethnicity genetics criminal_record money immigration self_harm childr"
    "en "
    "location family".split()
)
"""The sensitive topics: health; sex life or orientation; religion or belief; politics; union membership; ethnicity;
genetics or biometrics; criminal record; money trouble; immigration status; self-harm; children; exact location;
family conflict."""

# Single words, folded: small letters without accents.
_WORDS: Final[dict[str, str]] = {
    word: topic
    for topic, words in {
        "health": """
            asthma asthmatic diabetes diabetic cancer tumor tumour tumours chemo chemotherapy radiotherapy leukemia
            leukaemia hiv depression antidepressant antidepressants adhd autism autistic bipolar schizophrenia epilepsy
            epileptic migraine migraines allergy allergies allergic pregnant pregnancy miscarriage abortion medication
            medications insulin psychiatrist psychiatric psychotherapy psychotherapist dementia alzheimer alzheimers
            parkinsons arthritis eczema psoriasis endometriosis infertility ivf menopause anorexia anorexic bulimia
            alcoholism hepatitis lupus crohns coeliac celiac cholesterol inhaler antibiotics covid dialysis hypertension
            insomnia ptsd ocd thyroid hysterectomy prosthesis biopsy mammogram colonoscopy chemotherapies tinnitus
            krebs brustkrebs krebserkrankung zuckerkrank depressionen depressiv schwanger schwangerschaft fehlgeburt
            abtreibung allergie allergien allergisch allergiker medikament medikamente medikamenten psychiater
            psychotherapie therapeutin psychiaterin epilepsie migrane demenz bluthochdruck herzinfarkt schlaganfall arzt
            arztin arzttermin hausarzt hausarztin krankheit diagnostiziert tabletten rheuma neurodermitis chemotherapie
            magersucht bulimie schilddruse krankschreibung behinderung schwerbehindert impfung
            diabetico diabetica embarazada embarazo alergia alergias alergico alergica medicamento medicamentos
            psiquiatra psiquiatrica epilepsia migrana demencia hipertension quimioterapia insulina asma cancerigeno
            enfermedad enfermedades tumores anorexico artritis aborto medico vih
            diabete diabetique asthme asthmatique grossesse enceinte allergique medicaments psychiatre
            psychiatrique demence hypertendu chimiotherapie insuline maladie maladies anorexie boulimie fausse-couche
            avortement depressif depressive tumeur ordonnance vih sida cholesterol
            """,
        "sex": """
            gay lesbian bisexual homosexual homosexuality transgender transsexual pansexual asexual libido virginity
            pornography schwul lesbisch bisexuell homosexuell transsexuell sexualleben lesbiana transgenero homosexuel
            homosexuelle lesbienne bisexuel bisexuelle transgenre
            """,
        "religion": """
            catholic catholicism protestant muslim muslims islam islamic jewish judaism hindu hinduism buddhist buddhism
            christianity atheist atheism mosque synagogue ramadan quran koran torah hijab kosher baptised baptized sikh
            mormon religion religious pastor rabbi imam
            katholisch katholikin evangelisch muslimisch muslima judisch hinduistisch buddhistisch atheistin moschee
            synagoge glaubig religios konfession getauft konfirmation
            catolico catolica musulman musulmana judio judia budista ateo atea mezquita sinagoga religioso religiosa
            cristiano evangelico
            catholique musulmane juif juive bouddhiste athee mosquee religieux religieuse croyante bapteme
            """,
        "politics": """
            republicans communist communism socialist socialism leftist politics wahlverhalten kommunist kommunistin
            sozialist sozialistin parteimitglied comunista socialista communiste socialiste
            """,
        "union": """
            unionized unionised unionize unionise gewerkschaft gewerkschafter gewerkschafterin gewerkschaftsmitglied
            sindicato sindicalista sindical syndicaliste syndique syndiquee
            """,
        "ethnicity": """
            ethnicity hispanic latina latinx biracial aboriginal migrationshintergrund gitano gitana indigena
            afrodescendiente mestizo metis
            """,
        "genetics": "brca1 brca2 23andme gentest gendefekt erbkrankheit karyotype",
        "criminal_record": """
            felony misdemeanor parole incarcerated imprisoned vorbestraft vorstrafe vorstrafen gefangnis haftstrafe
            exconvicto encarcelado presidiario emprisonne
            """,
        "money": """
            bankruptcy foreclosure evicted eviction overindebted verschuldet privatinsolvenz schuldnerberatung
            burgergeld
            endeudado endeudada bancarrota desahucio desahuciado endette endettee surendettement surendette
            """,
        "immigration": """
            asylum refugee deportation deported h1b asyl asylantrag asylbewerber fluchtling aufenthaltstitel
            aufenthaltserlaubnis abschiebung einburgerung asilo refugiado refugiada indocumentado indocumentada
            deportado deportacion asile refugiee deporte naturalisation
            """,
        "self_harm": """
            suicide suicidal suicid suizid suizidal suizidgedanken selbstmord selbstmordgedanken suicidio suicidarme
            suicida autolesion autolesiones suicidaire automutilation suicider
            """,
        "family": """
            divorce divorced divorcing estranged scheidung geschieden sorgerecht ehekrise divorcio divorciado divorciada
            divorciarme divorcee divorcer
            """,
    }.items()
    for word in words.split()
}

# Several words together, folded, with the single words that must occur for a phrase to be looked for.
_PHRASE_TABLE: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "health",
        "doctor doctors doctor's gp",
        r"(?:my|our|her|his|your|see|saw|seeing) (?:the |a |an )?(?:family )?(?:doctors?|gp)\b(?! who)"
        r"|the (?:doctors?|gp) (?:said|says?|told|prescribed|thinks?|wants?|gave|called|recommend\w*|about|found)\b"
        r"|to (?:the|a) (?:doctor|gp)\b(?! who)|doctor'?s? (?:appointment|visit|note)",
    ),
    ("health", "therapist therapy", r"(?:my|her|his|a) therapist|in therapy|therapy (?:session|appointment)"),
    ("health", "diagnosed", r"diagnosed with(?! a (?:bug|fault|defect))"),
    (
        "health",
        "health",
        "(?:mental|my|her|his|poor|ill|physical) health|health (?:problems?|condition|history|insurance claim)",
    ),
    (
        "health",
        "hospital surgery",
        "in (?:the )?hospital|my (?:surgery|operation)|(?:knee|hip|heart|back|eye) surgery|hospital appointment",
    ),
    (
        "health",
        "pills pill tablets",
        r"(?:take[sn]?|took|taking) (?:\w+ ){0,2}(?:pills?|tablets)|(?:my|her|his) pills|on the pill",
    ),
    ("health", "blood heart", r"blood (?:pressure|sugar|test)|heart (?:attack|disease|condition)"),
    (
        "health",
        "panic anxiety eating",
        "panic attacks?|anxiety (?:disorder|attacks?)|(?:my|has|have|with) anxiety|eating disorder",
    ),
    (
        "health",
        "depressed deaf blind disabled wheelchair sclerosis",
        r"(?:i'm|am|he is|she is|he's|she's|who is) (?:\w+ )?(?:depressed|deaf|disabled)"
        r"|(?:been|feels?|felt) depressed|legally blind|i am blind"
        "|wheelchair user|uses a wheelchair|multiple sclerosis",
    ),
    ("health", "rehab addicted addiction", r"in rehab|addict(?:ed|ion) to|drug addiction"),
    ("health", "prescription sick", r"(?:my|a|her|his) prescription|sick leave|on sick"),
    ("health", "krank therapie", r"(?:bin|ist|war) (?:\w+ )?krank\b|in therapie"),
    (
        "health",
        "doctora salud sangre",
        r"(?:mi|la|el) doctora?\b|salud mental|problemas de salud|presion arterial|analisis de sangre",
    ),
    (
        "health",
        "medecin sante docteur tension",
        "(?:mon|le|ma|un) (?:medecin|docteur)|sante mentale|problemes? de sante|tension arterielle",
    ),
    (
        "sex",
        "sexual sex one",
        r"sexual (?:orientation|preference|health)|sex life|one[- ]night stand|had sex|having sex",
    ),
    (
        "sex",
        "sexuelle sexuelles sexual vida vie",
        "sexuelle (?:orientierung|orientation|neigung)|orientacion sexual|vida sexual"
        "|vie sexuelle|orientation sexuelle",
    ),
    ("religion", "christian", r"(?:am|is|was|a|devout|practi[sc]ing|raised) christian\b(?! [a-z]+(?:son|sen)\b)"),
    (
        "religion",
        "church kirche iglesia eglise",
        r"(?:my|to|in|at|our) church\b(?! (?:street|road|lane|encoding))|in die kirche"
        "|a la iglesia|a l'eglise",
    ),
    (
        "religion",
        "god gott dios dieu",
        r"(?:believes?|faith|trust) in god|glaub\w* an gott|cree\w* en dios|croi\w* en dieu",
    ),
    (
        "religion",
        "pray prays prayed faith bible bibel agnostic",
        r"(?:i|we|she|he|they) pray(?:s|ed)?\b|(?:my|her|his|their|our) faith|(?:read\w*"
        r"|study|study\w*) the bible|bible study|(?:am|is|an) agnostic\b",
    ),
    (
        "politics",
        "vote votes voted voting",
        r"vot(?:e|es|ed|ing) (?:for|against) (?:the )?(?:\w+ ){0,2}(?:party|labour|conservatives?"
        "|tories|tory|greens?|republicans?|democrats?|trump|biden|harris|spd|cdu|afd)",
    ),
    ("politics", "political", r"political (?:views?|opinions?|beliefs?|party|affiliation|activist)"),
    (
        "politics",
        "republican democrat democrats left-wing right-wing left right member",
        "(?:registered|lifelong|am a|is a) (?:republican|democrat)|(?:left|right)[- ]wing"
        r"|member of the \w+(?: \w+)? party",
    ),
    (
        "politics",
        "wahlt wahle gewahlt politische politischen",
        r"(?:wahlt|wahle|gewahlt) (?:\w+ ){0,2}(?:spd|cdu|csu|fdp|afd|grune|grunen|linke)"
        "|(?:spd|cdu|csu|fdp|afd|grune|linke) (?:gewahlt|wahlen)|politische[nr]? (?:ansichten"
        "|einstellung|meinung|partei)",
    ),
    (
        "politics",
        "vota voto vote votar politicas politico politica",
        "(?:vot[aoe]|votar|voto) (?:por|a|al) (?:el |la )?(?:partido|psoe|pp|vox|podemos"
        "|sumar)|(?:ideas|opiniones) politicas|partido politico|(?:ideologia|afiliacion) politica",
    ),
    (
        "politics",
        "politiques politique vote",
        "(?:opinions?|idees|convictions?) politiques?|parti politique|vote (?:pour )?(?:le (?:ps"
        "|rn|pcf)|macron|melenchon|le pen)",
    ),
    (
        "union",
        "union",
        r"(?:trade|labou?r|workers'?) union|union (?:member\w*|rep\w*|dues|organi[sz]er"
        r"|card)|(?:my|joined the|the nurses'?|the teachers'?) union\b|shop steward",
    ),
    (
        "union",
        "metall verdi syndicat cgt cfdt",
        r"ig[- ]metall|mitglied (?:bei|von|in der) ver\.?di|(?:membre|adherent\w*) (?:d'un syndicat"
        "|du syndicat|de la cgt|de la cfdt)|mon syndicat",
    ),
    (
        "ethnicity",
        "ethnic ethnische ethnischen etnico etnica ethnique",
        "ethnic (?:background|origin|minority|group)|ethnische[nr]? (?:herkunft|minderheit)"
        "|origen etnico|minoria etnica|origine ethnique",
    ),
    (
        "ethnicity",
        "black asian african native white latino mixed",
        "(?:i'm|am|as) (?:a )?(?:black|asian|latino|white)(?: (?:man|woman|person))?(?=[,.!;]"
        r"| and\b|$)|african[- ]american|native american|mixed[- ]race|(?:black|asian|white"
        r"|latino) (?:man|woman|person)\b",
    ),
    (
        "genetics",
        "genetic genetics dna genetische genetischen genetica adn genetique",
        "dna test|genetic (?:test|tests|testing|mutation|disorder|condition|results)|genetische[nr]? (?:test"
        "|untersuchung|erkrankung)|prueba (?:genetica|de adn)|test (?:genetique|d'adn"
        "|adn)",
    ),
    (
        "genetics",
        "fingerprint fingerprints biometric retina iris voiceprint",
        r"(?:my|his|her|their) (?:fingerprints?|biometric \w+|retina|iris scan|voiceprint)",
    ),
    (
        "criminal_record",
        "criminal convicted conviction arrested prison jail restraining dui",
        "criminal (?:record|conviction|charges?|history)|convicted (?:of|for|felon)|(?:was"
        r"|got|been|were) arrested|(?:in|to|from|out of) (?:prison|jail)\b|restraining order"
        r"|\ba dui\b",
    ),
    (
        "criminal_record",
        "verhaftet verurteilt antecedentes carcel prision detenido condenado casier prison condamne garde",
        r"(?:wurde|war|bin) (?:\w+ )?(?:verhaftet|verurteilt)|wegen \w+ verurteilt|antecedentes penales"
        r"|(?:en|a) (?:la )?(?:carcel|prision)\b|fue (?:detenid|condenad)[oa]|casier judiciaire"
        "|en prison|condamnee? (?:a|pour)|garde a vue",
    ),
    (
        "money",
        "debt debts bankrupt broke afford overdraft payday arrears behind unemployment collectors",
        r"(?<!technical )(?<!tech )(?:in|my|his|her|our|their|gambling|card) debts?\b|debt collect\w+"
        r"|(?:am|is|went|gone|i'm) (?:bankrupt|broke)\b|(?:can't|cannot|can not) afford"
        "|payday loan|(?:my|an) overdraft|in arrears|behind (?:on|with) (?:my |the |his "
        "|her )?(?:rent|mortgage|payments|bills)|unemployment benefits?",
    ),
    (
        "money",
        "schulden pleite insolvenz miete",
        r"(?<!technische )(?<!technischen )schulden\b(?! abbau)|(?:bin|ist|sind) pleite"
        "|in die insolvenz|miete nicht (?:mehr )?(?:zahlen|bezahlen)",
    ),
    (
        "money",
        "deudas deuda dettes faillite",
        r"(?:mis|sus|tengo|tiene|muchas) deudas|deudas?(?! tecnicas?)\b (?:de|con)|(?:mes"
        "|ses|des|nos) dettes(?! techniques?)|en faillite",
    ),
    (
        "immigration",
        "visa visas green undocumented immigration residence citizenship h-1b",
        r"(?:my|his|her|their|work|student|tourist) visas?\b|visa (?:application|expires?"
        "|expired|status|interview|renewal)|green card|undocumented (?:immigrants?|migrants?"
        "|workers?)|(?:am|is|are) undocumented(?=[,.!;]|$| and)|immigration (?:status"
        "|lawyer|papers|case)|residence permit|citizenship (?:application|test)|h-1b",
    ),
    (
        "immigration",
        "papeles permiso papiers sejour refugie duldung",
        "sin papeles|permiso de residencia|sans[- ]papiers|titre de sejour|carte de sejour"
        r"|(?:est|suis|un) refugie|\bduldung\b",
    ),
    (
        "self_harm",
        "self-harm self harm kill myself end overdose die",
        r"self[- ]harm\w*|(?:kill|hurt|cut|cutting|killing|hurting|harm|harming) myself"
        "|end(?:ing)? my (?:own )?life|want(?:s|ed)? to die|took an overdose",
    ),
    (
        "self_harm",
        "umbringen ritze ritzen verletzen matarme vida tuer",
        r"mich (?:selbst )?(?:umbringen|ritzen|verletzen)|ritze mich|quitarme la vida|\bmatarme\b"
        "|me (?:tuer|faire du mal)",
    ),
    (
        "children",
        "son daughter kid kids child children baby toddler son's daughter's custody year-old stepson stepdaughter"
        " grandson granddaughter",
        r"(?:my|our|her|his|their) (?:\w+ )?(?:son|daughter|kids?|child|children|baby|toddler"
        r"|stepson|stepdaughter|grandson|granddaughter)(?:'s)?\b(?! (?:process|processes"
        r"|nodes?|class|component|element)\b)|child custody|year-old (?:son|daughter|boy"
        "|girl)",
    ),
    (
        "children",
        "sohn tochter kind kinder kindern baby sohnes enkel",
        r"(?:mein|unser|sein|ihr)(?:e|en|em|er|es)? (?:\w+ )?(?:sohn|sohnes|tochter|kind"
        r"|kinder|kindern|baby|enkel)\b",
    ),
    (
        "children",
        "hijo hija hijos hijas bebe nieto nieta",
        r"(?:mis?|nuestr[oa]s?|sus?) (?:hij[oa]s?|bebe|niet[oa]s?)\b",
    ),
    (
        "children",
        "fils fille enfant enfants bebe",
        r"(?:mon|ma|mes|notre|nos|son|sa|ses) (?:petite? )?(?:fils|fille|filles|enfants?|bebe)\b",
    ),
    (
        "location",
        "live lives address home living gps coordinates",
        r"lives? at (?:number )?\d|home address|(?:my|her|his|our) address is|home alone"
        "|gps (?:position|location|coordinates)",
    ),
    (
        "location",
        "wohne wohnt vivo vive habite j'habite adresse direccion anschrift",
        r"wohn[et]\w* (?:in der |im |am )?\w*(?:strasse|str\.|weg|platz|allee)\b|viv[oe] en la (?:calle"
        r"|avenida)|habite(?: au| a)? \d|(?:meine|mon|mi) (?:adresse|anschrift|direccion)",
    ),
    (
        "family",
        "custody domestic abusive cheated affair marriage separated",
        "custody (?:battle|of|dispute|hearing)|domestic (?:violence|abuse)|abusive (?:husband"
        "|wife|partner|father|mother|parents|relationship)|cheat(?:ed|ing) on (?:me|my"
        "|him|her)|(?:had|having) an affair|marriage (?:counsell?ing|problems|is failing"
        "|is over)|separated from (?:my|his|her)",
    ),
    (
        "family",
        "fight fights fighting argument fought family",
        "(?:fights?|fighting|fought|arguments?|argue[sd]?) with (?:my|his|her) (?:wife"
        "|husband|partner|mother|father|mum|mom|dad|parents|brother|sister|son|daughter"
        "|in-laws)|family (?:conflict|dispute|feud|therapy)",
    ),
    (
        "family",
        "gewalt streit trennung violencia pelea custodia violence violences dispute garde",
        r"hausliche gewalt|streit mit mein\w+ (?:mann|frau|mutter|vater|eltern|bruder|schwester)"
        r"|trennung von mein\w+|violencia (?:domestica|de genero)|pelea con mi|custodia de (?:mis?"
        "|l[oa]s)|violences? (?:conjugales?|domestiques?)|dispute avec (?:ma|mon|mes)"
        "|garde des enfants",
    ),
)
_PHRASES: Final = tuple(
    (topic, frozenset(words.split()), re.compile(rf"(?<![^\W_])(?:{phrase})")) for topic, words, phrase in _PHRASE_TABLE
)
_WORD: Final = re.compile(r"[^\W_]+(?:['\-][^\W_]+)*")
_OTHERWISE: Final = re.compile(
    "suicide (?:squad|burn|pact with)|christian (?:dior|bale)|cancer research uk|economic depression"
    "|great depression"
    "|tropical depression|religious(?:ly)? (?:war|debate)s? (?:about|over)|divorced? from (?:the )?(?:reality"
    "|implementation)"
    r"|medico(?:-|\b)legal|cancer ward|medication-free|sikh?gz|pastor's? python"
)
"""Where a listed word means another thing."""
_COORDINATES: Final = re.compile(r"(?<![\w.])-?\d{1,2}\.\d{3,8} ?[,;/ ] ?-?\d{1,3}\.\d{3,8}(?![\w.])")

_EMAIL: Final = re.compile(r"(?<![\w.+\-])[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,5}")
_PHONE: Final = re.compile(
    r"(?<![\w.:/\-])(?:\+\d{1,3}[ .\-/]?(?:\(0?\d{1,4}\)[ .\-/]?)?\d{2,4}(?:[ .\-/]?\d{2,4}){1,4}"
    r"|\(?0\d{2,5}\)?[ \-/]\d{3,4}(?:[ \-/]?\d{2,5}){0,3}|\(\d{3}\) ?\d{3}-\d{4}|\d{3}-\d{3}-\d{4})(?![\w\-])"
)
_STREET: Final = re.compile(
    r"(?<!\w)\d{1,5}[a-z]? (?:\w+ ){1,3}(?:street|st|road|rd|avenue|ave|lane|ln|drive"
    r"|boulevard|blvd|square|terrace|close)\b"
    r"|\w{2,24}(?:strasse|str\.|gasse|allee)\s\d{1,4}\b|\b(?:am|im|an der|zum) \w{2,24} \d{1,3},? \d{5}\b"
    r"|(?<!\w)(?:calle|avenida|avda\.?|plaza|paseo) (?:de (?:la |los |las )?|del )?\w{2,24},? (?:n[o.º°]* ?)?"
    r"\d{1,4}\b"
    r"|(?<!\w)\d{1,4},? (?:bis,? )?(?:rue|avenue|boulevard|place|impasse|allee|quai) (?:de (?:la "
    r"|l')?|du |des |d')?\w{2,24}"
)
_BIRTH: Final = re.compile(
    r"(?:born (?:on|in)|birth ?day|birth ?date|date of birth|\bdob\b|geburtstag|geburtsdatum"
    r"|geboren (?:am|\d)|\bgeb\. ?(?:am )?\d"
    "|cumpleanos|fecha de nacimiento|naci(?:o|da|do)? el|anniversaire|date de naissance"
    r"|nee? le)[^\n.]{0,24}?\d"
)


def topics_of(text: str) -> frozenset[str]:
    """The sensitive topics that a text, or a question, is clearly about."""
    return topics_in(plain_words(text))


def topics_in(plain: str) -> frozenset[str]:
    """The same, for a text in the form of `plain_words`."""
    words = set(_WORD.findall(plain))
    found = {_WORDS[word] for word in words & _WORDS.keys()}
    if found and _OTHERWISE.search(plain):
        return topics_in(_OTHERWISE.sub(" ", plain))
    for topic, anchors, phrase in _PHRASES:
        if topic not in found and not anchors.isdisjoint(words) and phrase.search(plain):
            found.add(topic)
    if _COORDINATES.search(plain):
        found.add("location")
    return frozenset(found)


def personal_in(plain: str) -> frozenset[str]:
    """Personal data in a text in the form of `plain_words`: `email`, `phone`, `address`, `birth_date`."""
    found: set[str] = set()
    if "@" in plain and _EMAIL.search(plain):
        found.add("email")
    if any(map(str.isdecimal, plain)):
        for name, shape in (("phone", _PHONE), ("address", _STREET), ("birth_date", _BIRTH)):
            if shape.search(plain):
                found.add(name)
    return frozenset(found)
