"""Made sentences in languages other than English, with the words somebody would ask for them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EACH = 33


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it stands in a sentence, and as somebody asks for it: another spelling, form or prefix."""

    said: str
    asked: str


@dataclass(frozen=True, slots=True)
class Language:
    """Parts that any sentence of `pattern` is made of; `words` are asked for."""

    name: str
    pattern: str
    people: Sequence[str]
    places: Sequence[str]
    words: Sequence[Word]

    def sentences(self) -> list[tuple[str, Word]]:
        """33 different sentences, each with the word it is asked for by."""
        made: list[tuple[str, Word]] = []
        for number in range(EACH):
            word = self.words[number % len(self.words)]
            person = self.people[(number // len(self.words) + number) % len(self.people)]
            place = self.places[(number * 2 + number // len(self.people)) % len(self.places)]
            made.append((self.pattern.format(person=person, place=place, word=word.said), word))
        assert len({sentence for sentence, _ in made}) == EACH, self.name
        return made


def same(*words: str) -> list[Word]:
    """Words that are asked for as they are said."""
    return [Word(word, word) for word in words]


LANGUAGES = (
    Language(
        "Japanese",
        "{person}さんは{place}で{word}を見つけた。",
        ("田中", "佐藤", "鈴木", "高橋", "伊藤"),
        ("京都", "港町", "図書館", "駅前", "山小屋", "学校", "市場"),
        same("灯台", "切符", "自転車", "古い地図", "カメラ", "財布", "招待状", "望遠鏡", "傘", "ピアノ", "白い猫"),
    ),
    Language(
        "Chinese",
        "{person}昨天在{place}买了{word}。",
        ("王芳", "李伟", "张敏", "刘洋", "陈静"),
        ("上海", "书店", "菜市场", "火车站", "海边", "医院", "花园"),
        same("雨伞", "苹果", "钢琴", "旧照片", "红茶", "望远镜", "自行车", "词典", "毛衣", "船票", "茶"),
    ),
    Language(
        "Thai",
        "{person}เก็บ{word}ไว้ที่{place}เมื่อวานนี้",
        ("สมชาย", "มาลี", "วิชัย", "นารี", "ประเสริฐ"),
        ("ตลาด", "ท่าเรือ", "โรงเรียน", "บ้าน", "ห้องสมุด", "สวน", "วัด"),
        same("ร่ม", "กุญแจ", "ปู", "แผนที่", "ตั๋วรถไฟ", "จักรยาน", "นาฬิกา", "กระเป๋า", "จดหมาย", "กล้อง", "ชา"),
    ),
    Language(
        "Arabic",
        "وجد {person} {word} في {place} أمس",
        ("أحمد", "مريم", "يوسف", "ليلى", "إبراهيم"),
        ("السوق", "الميناء", "المدرسة", "المكتبة", "المحطة", "الحديقة", "القرية"),
        (
            Word("الكتاب", "كتاب"),
            Word("المفتاح", "مفتاح"),
            Word("سَفينة", "سفينة"),
            Word("الدراجة", "دراجة"),
            Word("خريطة", "الخريطة"),
            Word("القطة", "قطه"),
            Word("رسالة", "رسالة"),
            Word("الإبرة", "ابرة"),
            Word("تذكـرة", "تذكرة"),
            Word("والساعة", "الساعة"),
            Word("بالمصباح", "مصباح"),
        ),
    ),
    Language(
        "Hindi",
        "{person} को {place} में {word} मिली।",
        ("राम", "सीता", "अमित", "प्रिया", "मोहन"),
        ("बाज़ार", "बंदरगाह", "विद्यालय", "पुस्तकालय", "स्टेशन", "बगीचे", "गाँव"),
        (
            Word("किताबें", "किताब"),
            Word("चाबी", "चाबियाँ"),
            Word("नाव", "नाव"),
            Word("साइकिल", "साइकिल"),
            Word("चिट्ठियाँ", "चिट्ठी"),
            Word("काग़ज़", "कागज"),
            Word("घड़ी", "घड़ी"),
            Word("लड़कों की टोपी", "लड़का"),
            Word("चाय", "चाय"),
            Word("आँख", "आंख"),
            Word("दवाओं", "दवा"),
        ),
    ),
    Language(
        "German",
        "{person} hat {place} {word} gefunden.",
        ("Jürgen", "Käthe", "Frau Groß", "Herr Möller", "Anna"),
        ("am Bahnhof", "im Hafen", "in der Bücherei", "auf dem Markt", "im Garten", "am Fluß", "in der Küche"),
        (
            Word("einen Schlüssel", "Schluessel"),
            Word("die Fähre", "Faehre"),
            Word("ein Gemälde", "Gemalde"),
            Word("die Straßenkarte", "Strassenkarte"),
            Word("ein Huhn", "HUHN"),
            Word("den Regenschirm", "Regenschirm"),
            Word("die Tuer", "Tür"),
            Word("das Öl", "Oel"),
            Word("einen Brief", "Brief"),
            Word("die Äpfel", "Äpfel"),
            Word("das Fußballtor", "Fussballtor"),
        ),
    ),
)
