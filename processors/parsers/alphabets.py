"""What the letters beyond ASCII of written languages look like, for telling legacy encodings apart.

Each profile lists a language's non-ASCII characters from frequent to rare; only the order matters. The
lists are our own estimates from ordinary prose; they serve to rank decodings, not to name languages.
"""

from __future__ import annotations

import math
from functools import cache

PUNCTUATION = "’“”–—…‘«»°§©®£€½¼·•²³×±¿¡\u00a0"

LATIN: dict[str, str] = {
    "western": "’“”–—…‘£é€©®½°§¼·•²³×±",
    "German": "üäößÜÄÖ„é",
    "French": "éèàêçôùîâûëïœÉÀÊÇŒÈÔ",
    "Spanish": "óáíéñúüÁÉÍÓÚÑ¿¡ºª",
    "Portuguese": "ãçéáíõóêâúàôÃÇÉÁÍÕÓÊÂÚÀÔºª",
    "Italian": "èàùòéìÈÀ",
    "Nordic": "åäöøæÅÄÖØÆéÉ",
    "Icelandic": "ðíáþéöúóæýÞÍÁÉÖÚÓÆÝ",
    "Dutch": "ëéïóèöüá",
    "Polish": "łąężśćóńźŻŁŚĆĄĘÓŃŹ„",
    "Czech": "íáéěřčžšýůúďťóňČŘŽŠÍÁÚĚÉŇŤĎÝŮ„",
    "Slovak": "áíčéžšýľťúôňďäóĺŕČŽŠÁÍĽŤÚÝÉŇĎ„",
    "Hungarian": "áéöóőüúíűÉÁÖÓŐÜÚÍŰ„",
    "Romanian": "ăîțșâşţÎȘȚĂÂŞŢ„",
    "Croatian": "čšžćđŠŽČĆĐ",
    "Turkish": "ıışğüçöİŞĞÜÇÖâî",
    "Baltic": "āšėžīūčēųįņąęļģķõäöüŠŽČĀĪŪĒĖĢĶĻŅĄĘĮŲÕÄÖÜ",
}
"""Languages in Latin letters."""

OTHER: dict[str, str] = {
    "Greek": "αοιετσνηυρπκμλςωδγχθφβξζψάίόέήώύϊΐϋΑΟΙΕΤΣΝΗΥΡΠΚΜΛΩΔΓΧΘΦΒΞΖΨΆΈΌΉΊΏ",
    "Russian": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъёОЕАИНТСРВЛКМДПУЯГЗБЧЙХЖШЮЦЩЭФ№",
    "Ukrainian": "оаниівтерсклудмпязьбгчйхїжєшюцщфґОАНИІВТЕРСКЛУДМПЯЗБГЧЙХЇЖЄШЮЦ’№",
    "Hebrew": "יוהלארתבשמםנעדחקפכצגןטזסךףץ",
    "Arabic": "الينمرتوبعدسفهكقحجةأطصشضخىذثزئءغظؤإآ،؟ًٌٍَُِّْ",
    "Thai": "านรอกเงมยลวดทสตะปบคหจพไชใขณผโธถซแภฟศษญฐฎๆ์ัีิ่้ืู็ุำึฯ",
}
"""Languages in other alphabets."""


@cache
def log_probabilities() -> dict[str, dict[str, float]]:
    """For each language, character -> log probability among its non-ASCII characters (Zipf over the rank)."""
    return {name: _zipf(letters) for name, letters in {**LATIN, **OTHER}.items()}


def _zipf(letters: str) -> dict[str, float]:
    weights = {letter: 1.0 / (rank + 2) for rank, letter in enumerate(dict.fromkeys(letters))}
    floor = min(weights.values())
    for mark in PUNCTUATION:
        weights.setdefault(mark, floor)
    share = sum(weights.values())
    return {letter: math.log(weight / share) for letter, weight in weights.items()}
