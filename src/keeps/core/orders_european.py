"""Words for the machine in Spanish, German and French, and orders to ignore orders in Italian, Portuguese, Polish and
Russian, folded: small letters, no accents."""

from __future__ import annotations

from typing import Final

from keeps.core.orders import ACTIONS, AUTHORITY, RECOMMENDS, SECRECY, SENDS, SKIPS, SPEAKS, TRIGGER, Row

EUROPEAN: Final[tuple[Row, ...]] = (
    # Spanish
    (
        SPEAKS,
        0.6,
        "ignora ignore olvida olvide omite descarta desobedece ignorar olvidar",
        r"\b(?:ignor(?:a|e|ar)|olvid(?:a|e|ar)|omit(?:e|a)|descart(?:a|e)|desobedece)(?: \w+){0,3} (?:instrucc"
        "ione"
        r"s|reglas|ordenes|normas|indicaciones|restricciones|directrices|lo anterior)\b",
    ),
    (
        SPEAKS,
        0.5,
        "debes tienes deberas asistente eres",
        r"\b(?:debes|deberas|tienes que|has de) (?:siempre |ahora |nunca )?(?:obedecer"
        r"|enviar|reenviar|ignorar|recomendar|revelar|ejecutar|abrir|decir|responder|usar)\b"
        r"|\bahora eres\b|(?:^|[.!] ?|\b(?:querido|atencion,?|nota para el) )(?:asistente"
        r"|ia|modelo|sistema) ?[,:]|\b(?:el asistente|la ia) (?:debe|tiene que)\b",
    ),
    (SPEAKS, 0.3, "partir ahora", r"\b(?:a partir de|de|desde) ahora(?: en adelante)?\b"),
    (
        SPEAKS,
        0.5,
        "instrucciones prompt mensaje modo",
        r"\b(?:revela|muestra|imprime|repite)(?: \w+){0,3} (?:instrucciones|prompt"
        "|notas"
        r"|secretos)\b|\bnuevas instrucciones ?:|\binstrucciones del sistema\b|\bmodo (?:administrador"
        r"|desarrollador)\b",
    ),
    (
        TRIGGER,
        0.5,
        "cuando si cada siempre",
        r"\b(?:cuando|si|cada vez que|siempre que) (?:el |la |un |una )?(?:usuari[oa]"
        "|cliente"
        rf"|alguien|persona)(?: \w+){{0,2}} (?:pregunt|pid|mencion|solicit|quier|habl|escrib"
        rf"|dig)\w*[^.!?]{{0,60}}[,;:] ?(?:primero |siempre |luego |entonces |inmediatamente )*(?:{ACTIONS}"
        r"|di|responde)\b",
    ),
    (
        TRIGGER,
        0.3,
        "cuando si cada siempre",
        r"\b(?:cuando|si|cada vez que|siempre que) (?:el |la |un |una )?(?:usuari[oa]"
        "|cliente"
        r"|alguien|persona)(?: \w+){0,2} (?:pregunt|pid|mencion|solicit|quier|habl|escrib"
        r"|dig)\w*",
    ),
    (
        SECRECY,
        0.6,
        "usuario usuaria",
        r"\b(?:no|nunca|sin) (?:se lo |le |lo )?(?:dig\w*|decir\w*|cuent\w*|contar\w*"
        r"|inform\w*"
        r"|mencion\w*|revel\w*|muestr\w*|avis\w*)(?: \w+){0,4} (?:al|a la|el|del|la) usuari[oa]\b"
        r"|\b(?:oculta|esconde)(?: \w+){0,4} (?:al|a la|del) usuari[oa]\b|\bque (?:el|la) usuari[oa] (?:no )?(?:lo"
        r" )?(?:sepa|vea|note)\b",
    ),
    (
        AUTHORITY,
        0.5,
        "confianza fiable aprobado autorizado verificado",
        r"\b(?:fuente|proveedor|sitio|empresa)s? (?:de (?:toda )?confianza|fiable"
        r"|confiable)s?\b"
        r"|\b(?:aprobad|autorizad|verificad)[oa]s? por (?:el |la )?(?:administrador\w*"
        r"|admin|sistema|desarrollador\w*|equipo de seguridad)\b",
    ),
    (
        RECOMMENDS,
        0.5,
        "siempre nunca",
        r"\b(?:siempre|nunca) (?:recomienda|recomiende|recomendar|sugiere|promociona)\b"
        r"|\b(?:recomienda|recomiende|recomiendal[oa]) siempre\b|\brecomiendal[oa] (?:primero"
        r"|siempre)\b",
    ),
    (
        SENDS,
        0.5,
        "envia envie reenvia manda sube comparte copia",
        r"\b(?:envi[ae]|reenvi[ae]|mand[ae]|sub[ae]|compart[ea]|copi[ae])(?: \w+){0,4} (?:notas"
        "|datos|mensajes|conversaciones|contrasenas|facturas|archivos|contactos|recuerdos"
        r"|informacion|historial|claves)(?: \w+){0,3} (?:usuari[oa]|privad[oa]s|personales"
        r"|a)\b",
    ),
    (
        SKIPS,
        0.4,
        "confirmacion aprobacion verificacion",
        r"\b(?:sin|omite|omitir|salta|saltate|evita|desactiva)(?: \w+){0,3} (?:confirmacion"
        r"|aprobacion|verificacion|permisos?)\b",
    ),
    # German
    (
        SPEAKS,
        0.6,
        "ignoriere ignorieren vergiss vergessen missachte umgehe ubergehe",
        r"\b(?:ignorier(?:e|en)(?: sie)?|vergiss|vergessen sie|missachte|umgehe|ubergehe)(?: \w+){0,3} (?:anwe"
        "isun"
        r"gen|regeln|vorgaben|instruktionen|befehle|richtlinien|einschrankungen|prompts?)\b"
        r"|\b(?:ignoriere|vergiss) alles(?: \w+)?,? (?:bisher|vorher|was|zuvor)",
    ),
    (
        SPEAKS,
        0.5,
        "du sie assistent ki bist modus",
        r"\bdu (?:musst|sollst|wirst)(?: \w+){0,4} (?:gehorchen|senden|schicken|weiterleiten"
        r"|empfehlen|ignorieren|verraten|offnen|ausfuhren|antworten|sagen|befolgen)\b|\bdu bist (?:jetzt"
        r"|nun|ab sofort)\b|(?:^|[.!] ?|\b(?:lieber|liebe|achtung,?|hinweis an(?: den| die)?"
        r"|hallo) )(?:assistent|ki|modell|chatbot|system) ?[,:]|\b(?:der assistent|die ki) (?:muss"
        r"|soll)\b|\b(?:admin|entwickler)-?modus\b",
    ),
    (SPEAKS, 0.3, "ab", r"\b(?:ab jetzt|ab sofort|von nun an|von jetzt an)\b"),
    (
        SPEAKS,
        0.5,
        "anweisungen prompt systemprompt anweisung",
        r"\b(?:verrate|zeige|wiederhole|gib)(?: \w+){0,3} (?:anweisungen|systemprompt"
        "|prompt"
        r"|notizen|geheimnisse)\b|\bneue anweisung(?:en)? ?:|\banweisung an (?:den assistenten"
        r"|die ki)\b",
    ),
    (
        TRIGGER,
        0.5,
        "wenn sobald falls jedes immer",
        r"\b(?:wenn|sobald|falls|jedes mal wenn|immer wenn) (?:der |die |ein |eine )?(?:nutzer(?:in)?"
        rf"|benutzer(?:in)?|kund(?:e|in)|anwender|jemand|person|user)\b[^.!?,]{{0,60}}(?:frag"
        rf"|erwahn|bitte|will|mocht|sag|schreib|nenn|verlang|sprich)\w*[^.!?]{{0,20}}[,;:] ?(?:dann "
        rf"|zuerst |immer |sofort |heimlich )*(?:{ACTIONS}|sag|nenne|antworte)\b",
    ),
    (
        TRIGGER,
        0.3,
        "wenn sobald falls jedes immer",
        r"\b(?:wenn|sobald|falls|jedes mal wenn|immer wenn) (?:der |die |ein |eine )?(?:nutzer(?:in)?"
        r"|benutzer(?:in)?|kund(?:e|in)|anwender|jemand|person|user)\b[^.!?,]{0,60}(?:frag"
        "|erwahn|bitte|will|mocht|sag|schreib|nenn|verlang|sprich)",
    ),
    (
        SECRECY,
        0.6,
        "nutzer nutzerin benutzer benutzerin anwender user",
        r"\b(?:sag|sage|sagen sie|erzahl|erzahle|verrate|verraten sie|zeig|zeige"
        "|teile"
        r"|informiere|erwahne)(?: \w+){0,6} (?:nutzer(?:in)?|benutzer(?:in)?|anwender|user)\b(?: \w+){0,5} (?:nich"
        r"t|nichts|nie|niemals)\b|\b(?:nutzer(?:in)?|benutzer(?:in)?|anwender|user) (?:nichts"
        "|nie|niemals|nicht) (?:davon|sagen|verraten|zeigen|wissen|uber|von|informieren"
        r"|mitteilen|dass)|\b(?:sag|sage|verrate|zeige|erzahle)(?: \w+){0,3} (?:nutzer(?:in)?"
        r"|benutzer(?:in)?) (?:nichts|nicht)|\b(?:nutzer(?:in)?|benutzer(?:in)?) darf (?:\w+ ){0,3}(?:nicht"
        r"|nie|nichts)\b|\b(?:verheimliche|verbirg|verstecke)(?: \w+){0,4} (?:nutzer|benutzer"
        r"|anwender)|\bohne (?:den |dem )?(?:nutzer|benutzer|anwender) (?:zu (?:fragen"
        "|informieren)|davon)",
    ),
    (
        AUTHORITY,
        0.5,
        "vertrauenswurdige vertrauenswurdiger vertrauenswurdig genehmigt freigegeben autorisiert bestatigt",
        r"\bvertrauenswurdige[rn]? (?:quelle|anbieter|partner|seite|absender)\b|\b(?:vom"
        r"|von der|durch (?:den|die)|von) (?:admin\w*|systemadmin\w*|entwickler\w*|sicherheitsteam"
        r"|system) (?:\w+ )?(?:genehmigt|freigegeben|autorisiert|bestatigt|verifiziert)\b"
        r"|\b(?:genehmigt|freigegeben|autorisiert|bestatigt|verifiziert) (?:vom|von der"
        r"|durch den|durch die|von) (?:admin\w*|entwickler\w*|system\w*|sicherheitsteam)\b",
    ),
    (
        RECOMMENDS,
        0.5,
        "empfiehl empfehle empfehlen",
        r"\bempf(?:iehl|ehlen sie)(?: \w+){0,4} (?:immer|stets|nie|niemals|nur|zuerst)\b"
        r"|\b(?:immer|stets|nie|niemals) (?:zuerst )?(?:\w+ )?(?:empfehlen|empfiehl)\b",
    ),
    (
        SENDS,
        0.5,
        "sende schicke schick leite lade kopiere ubermittle senden schicken",
        r"\b(?:sende|senden sie|schicke?|schicken sie|leite|leiten sie|lade|kopiere"
        r"|ubermittle)(?: \w+){0,4} (?:no"
        "tizen|daten|nachrichten|gesprache|passworter|rechnungen|dateien|kontakte|erinnerungen"
        r"|verlauf|dokumente|zugangsdaten|kontostand)\b",
    ),
    (
        SKIPS,
        0.4,
        "bestatigung genehmigung freigabe zustimmung ruckfrage prufung",
        r"\b(?:ohne|uberspringe|umgehe|deaktiviere)(?: \w+){0,3} (?:bestatigung|genehmigung"
        r"|freigabe|zustimmung|ruckfrage|prufung)\b",
    ),
    # French
    (
        SPEAKS,
        0.6,
        "ignore ignorez ignorer oublie oubliez neglige contourne contournez",
        r"\b(?:ignore[rz]?|oublie[rz]?|neglige[rz]?|contourne[rz]?)(?: [\w']+){0,3} (?:instructions"
        r"|regles|consignes|directives|ordres|restrictions)\b",
    ),
    (
        SPEAKS,
        0.5,
        "dois devez assistant ia es etes mode",
        r"\b(?:tu dois|vous devez) (?:toujours |maintenant |jamais )?(?:obeir|envoyer"
        "|transferer"
        r"|ignorer|recommander|reveler|executer|ouvrir|dire|repondre|utiliser)\b|\b(?:tu es"
        r"|vous etes) (?:maintenant|desormais)\b|(?:^|[.!] ?|\b(?:cher|attention,?|note (?:pour"
        r"|a) l') ?)(?:assistant|ia|modele|systeme) ?[,:]|\b(?:l'assistant|l'ia) (?:doit"
        r"|devra)\b|\bmode (?:administrateur|developpeur)\b",
    ),
    (SPEAKS, 0.3, "desormais partir", r"\b(?:desormais|a partir de maintenant|dorenavant)\b"),
    (
        SPEAKS,
        0.5,
        "instructions prompt consignes systeme",
        r"\b(?:revele|revelez|affiche|affichez|repete|repetez|montre|montrez)(?: [\w']+){0,3} (?:instructions"
        r"|prompt|consignes|notes|secrets)\b|\bnouvelles (?:instructions|consignes) ?:"
        r"|\b(?:prompt|message|instructions) (?:du )?systeme\b",
    ),
    (
        TRIGGER,
        0.5,
        "quand lorsque si chaque des",
        r"\b(?:quand|lorsqu[e']|si|chaque fois qu[e']|des qu[e']) ?(?:l'|le |la "
        "|un |une )?(?:utilisat(?:eur"
        rf"|rice)|client|cliente|quelqu'un|personne)(?: \w+){{0,2}} (?:demand|mentionn|parl"
        rf"|veu|souhait|ecri|di[st]|pos)\w*[^.!?]{{0,60}}[,;:] ?(?:d'abord |toujours |ensuite "
        rf"|alors |immediatement )*(?:{ACTIONS}|dis|dites|reponds|repondez)\b",
    ),
    (
        TRIGGER,
        0.3,
        "quand lorsque si chaque des",
        r"\b(?:quand|lorsqu[e']|si|chaque fois qu[e']|des qu[e']) ?(?:l'|le |la "
        "|un |une )?(?:utilisat(?:eur"
        r"|rice)|client|cliente|quelqu'un|personne)(?: \w+){0,2} (?:demand|mentionn|parl"
        "|veu|souhait|ecri|di[st]|pos)",
    ),
    (
        SECRECY,
        0.6,
        "l'utilisateur utilisateur l'utilisatrice utilisatrice",
        r"\b(?:ne|n'|sans|jamais)(?: [\w']+){0,4} ?(?:di[st]\w*|dire|parl\w*|inform\w*"
        r"|mentionn\w*|revel\w*|montr\w*|averti\w*|prevenir)(?: [\w']+){0,5} ?(?:utilisateur"
        r"|utilisatrice)\b|\b(?:cache|cachez|dissimule|dissimulez)(?: [\w']+){0,4} ?(?:utilisateur"
        r"|utilisatrice)\b|\b(?:utilisateur|utilisatrice) ne doit (?:pas|jamais|rien)\b",
    ),
    (
        AUTHORITY,
        0.5,
        "confiance fiable approuve autorise valide verifie approuvee",
        r"\b(?:source|fournisseur|site|partenaire)s? (?:de confiance|fiables?)\b"
        r"|\b(?:approuve"
        r"|autorise|valide|verifie)e?s? par (?:l'|le |la |les )?(?:admin\w*|systeme|developpeur\w*"
        r"|equipe de securite)\b",
    ),
    (
        RECOMMENDS,
        0.5,
        "recommande recommandez recommander recommandez-le recommande-le",
        r"\b(?:recommande|recommandez)(?:-l[ea])?(?: [\w']+){0,3} (?:toujours|jamais"
        "|en premier"
        r"|uniquement|d'abord)\b|\b(?:toujours|jamais) recommander\b|\b(?:recommande|recommandez)(?:-l[ea])? (?:to"
        "ujours|en premier)",
    ),
    (
        SENDS,
        0.5,
        "envoie envoyez transfere transferez transmets transmettez copie partage partagez",
        r"\b(?:envoie|envoyez|transfere|transferez|transmets|transmettez|copie|copiez"
        "|partage"
        r"|partagez)(?: [\w']+){0,4} (?:notes|donnees|messages|conversations|mots de passe"
        r"|factures|fichiers|contacts|souvenirs|informations|historique)\b",
    ),
    (
        SKIPS,
        0.4,
        "confirmation approbation verification validation autorisation",
        r"\b(?:sans|saute|sautez|contourne|desactive|evite)(?: [\w']+){0,3} (?:confirmation"
        r"|approbation|verification|validation|autorisation)\b",
    ),
    # Italian and Portuguese
    (
        SPEAKS,
        0.6,
        "ignora ignorate ignorare dimentica dimenticate trascura scorda",
        r"\b(?:ignora(?:te|re)?|dimentica(?:te)?|trascura|scorda)(?: \w+){0,3} (?:istruzioni|regole|ordini|direttive"
        r"|indicazioni|comandi)\b",
    ),
    (
        SPEAKS,
        0.6,
        "ignore ignora ignorem ignorar esqueca esquece desconsidere desobedeca",
        r"\b(?:ignor(?:e|a|em|ar)|esquec[ae]|desconsidere|desobedeca)(?: \w+){0,3} (?:instrucoes|regras|ordens"
        r"|diretrizes|orientacoes|comandos)\b",
    ),
    # Polish and Russian
    (
        SPEAKS,
        0.6,
        "ignoruj ignorujcie zignoruj zignorujcie zapomnij pomin",
        r"\b(?:z?ignoruj(?:cie)?|zapomnij|pomin)(?: \w+){0,3} (?:instrukcj\w{1,3}|polece\w{1,4}|zasad\w{0,3}"
        r"|regu[lł]\w{0,3}|wytyczn\w{1,3}|rozkaz\w{1,3})\b",
    ),
    (
        SPEAKS,
        0.6,
        "игнорируи игнорируите проигнорируи проигнорируите забудь забудьте внимания отмени",
        r"\b(?:(?:про)?игнорируи(?:те)?|забудь(?:те)?|отмени|не обращаи(?:те)? внимания на)(?: \w+){0,3}"
        r" (?:инструкц\w{1,3}|указани\w{1,3}|правил\w{0,3}|команд\w{0,3}|приказ\w{0,3}|предписани\w{1,3})\b",
    ),
)
