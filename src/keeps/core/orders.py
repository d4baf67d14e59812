"""What rules about words for the machine are called, and the verbs that order something in the languages they know."""

from __future__ import annotations

from typing import Final

SPEAKS: Final = "speaks_to_assistant"
TRIGGER: Final = "trigger"
SECRECY: Final = "secrecy"
AUTHORITY: Final = "authority"
RECOMMENDS: Final = "recommends"
CONTACT: Final = "contact_and_imperative"
SENDS: Final = "sends_data"
SKIPS: Final = "skips_checks"
ROLES: Final = "role_tokens"
FENCE: Final = "fence_tokens"
BLOB: Final = "blob"
HIDDEN: Final = "hidden_chars"
MIXED: Final = "mixed_script"
UNKNOWN: Final = "unknown_language_and_url"

Row = tuple[str, float, str, str]
"""Reason, weight, the words of which one must occur, the pattern. Texts are folded: small letters, no accents."""
Pair = tuple[str, float, str]
"""The same where words are not told apart by spaces."""

# Verbs that have something done, as orders; folded.
ACTIONS: Final = (
    "send|forward|open|visit|click|go to|fetch|download|upload|post|submit|transfer"
    "|wire|pay|buy|order|donate|deposit|install"
    "|run|execute|email|e-mail|mail|report|share|copy|navigate|browse|load|redirect"
    "|route|delete|call the|invoke|use the \\w+ tool"
    "|write to|reply to|connect|contact|publish|append|include|insert|give|tell|reveal"
    "|show|recommend|say|answer that"
    "|envia|envie|enviale|reenvia|reenvie|manda|mande|abre|abra|visita|visite|descarga"
    "|descargue|sube|suba|transfiere|transfiera|paga"
    "|pague|compra|compre|instala|ejecuta|ejecute|comparte|contacta|haz clic|pulsa"
    "|recomienda|revela|muestra|borra"
    "|sende|senden sie|schicke|schick|schicken sie|leite|leiten sie|offne|offnen sie"
    "|besuche|besuchen sie|klicke|klicken sie|lade"
    "|laden sie|uberweise|uberweisen sie|zahle|bezahle|kaufe|kaufen sie|installiere"
    "|fuhre|fuhren sie|teile|rufe|empfiehl|empfehlen sie"
    "|verrate|zeige|losche|kopiere|antworte mit"
    "|envoie|envoyez|transfere|transferez|transmets|transmettez|ouvre|ouvrez|visite"
    "|visitez|clique|cliquez|telecharge"
    "|telechargez|paie|payez|achete|achetez|installe|installez|execute|executez|partage"
    "|partagez|recommande|recommandez|revele"
    "|revelez|montre|montrez|supprime|supprimez|vire|virez"
)
