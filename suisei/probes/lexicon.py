"""Small hand-made word lists of both languages: what a caption's words may wrongly, or rightly, become.

A mapping gives each word or phrase the words that may stand in its place. Those of :data:`WRONG` make a
caption say something else (a dog becomes a cat); those of :data:`ALIKE` do not change what it says.
Words are those of everyday photographs; English ones are in lower case, with their plurals.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from suisei.probes.words import LOOKS, word_set

Choices = Mapping[str, tuple[str, ...]]
"""{word or phrase: what may stand in its place}."""


class Addition(NamedTuple):
    """Something that is said to be there.

    Attributes:
        phrase: what is added to a caption.
        thing: the word that must not be in the caption or its references.
    """

    phrase: str
    thing: str


_IRREGULAR = {"man": "men", "woman": "women", "sheep": "sheep", "bus": "buses", "couch": "couches"}
_IRREGULAR |= {"bench": "benches", "beach": "beaches", "sandwich": "sandwiches", "dress": "dresses"}
_IRREGULAR |= {"scarf": "scarves", "knife": "knives", "baby": "babies"}
_SINGULAR = {plural: noun for noun, plural in _IRREGULAR.items()}


def plural(noun: str) -> str:
    """Return the plural of an English noun of the lists."""
    return _IRREGULAR.get(noun, f"{noun}s")


def numbers_of(noun: str) -> set[str]:
    """Return an English noun of the lists, its plural and its singular, whichever it is.

    >>> sorted(numbers_of("women")), sorted(numbers_of("dog"))
    (['woman', 'women', 'womens'], ['dog', 'dogs'])
    """
    singular = _SINGULAR.get(noun, noun.removesuffix("s"))
    return {noun, plural(noun), singular} - {""}


def _groups(*texts: str) -> dict[str, tuple[str, ...]]:
    """Give every word of a group the others."""
    groups = [text.split() for text in texts]
    return {word: tuple(other for other in group if other != word) for group in groups for word in group}


def _pairs(text: str) -> dict[str, tuple[str, ...]]:
    """Read "a=b, c=d|e": b for a and back, d or e for c and back; blanks are part of a phrase."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in text.split(","):
        sides = [side.strip() for part in entry.split("=") for side in part.split("|")]
        for side in sides:
            found[side] = tuple(dict.fromkeys((*found.get(side, ()), *(x for x in sides if x != side))))
    return found


def _arrows(text: str) -> dict[str, tuple[str, ...]]:
    """Read "a>b|c, d>e": b or c for a, e for d, and nothing back."""
    split = (entry.split(">") for entry in text.split(","))
    return {left.strip(): tuple(word.strip() for word in right.split("|")) for left, right in split}


def _with_plurals(choices: Choices) -> dict[str, tuple[str, ...]]:
    plurals = {plural(word): tuple(plural(other) for other in others) for word, others in choices.items()}
    return {**plurals, **choices}


_OBJECTS_EN = _with_plurals(
    {
        **_groups(
            "dog cat horse cow sheep bird elephant bear zebra giraffe",
            "car bus truck train boat motorcycle airplane bicycle",
            "chair bed couch bench table",
            "pizza cake sandwich apple banana salad hamburger",
            "shirt hat dress jacket skirt scarf helmet",
            "beach street forest kitchen bathroom desert pool",
            "ball frisbee kite umbrella camera laptop book guitar cup knife",
            "skateboard surfboard snowboard",
        ),
        **_arrows(
            "man>woman|girl, woman>man|boy, boy>girl|woman, girl>boy|man, bike>car|bus|boat, "
            "puppy>kitten, kitten>puppy, plane>train|boat|bus, sofa>bed|bench|table, desk>bed|bench, "
            "phone>book|cup|ball, park>kitchen|desert, river>street|kitchen, mountain>beach|kitchen, "
            "field>kitchen|beach, lake>street|kitchen, ocean>street|forest, road>beach|river"
        ),
    }
)
_OBJECTS_EN |= _arrows(
    "grass>sand|carpet, snow>sand|grass, water>grass|snow, sand>snow|grass, people>dogs|horses"
)

_OBJECTS_JA = {
    **_groups(
        "犬 猫 馬 牛 羊 鳥 象 熊 シマウマ キリン",
        "車 バス トラック 電車 船 バイク 自転車 飛行機",
        "椅子 ベッド ソファ ベンチ テーブル",
        "ピザ ケーキ サンドイッチ りんご バナナ サラダ ハンバーガー ドーナツ",
        "シャツ 帽子 ドレス ジャケット スカート マフラー ヘルメット",
        "海 道路 森 キッチン 浴室 砂漠 プール",
        "ボール フリスビー 凧 傘 カメラ パソコン 本 ギター コップ 包丁",
        "スケートボード サーフボード スノーボード",
    ),
    **_arrows(
        "男性>女性|女の子, 女性>男性|男の子, 男の子>女の子|女性, 女の子>男の子|男性, 男>女, 女>男, "
        "少年>少女, "
        "少女>少年, 男の人>女の人, 女の人>男の人, 子犬>子猫, 子猫>子犬, 机>ベッド|ベンチ, 台所>浴室|森, "
        "公園>キッチン|砂漠, 川>道路|キッチン, 山>海|キッチン, 道>川|海, 部屋>森|海岸, 野原>キッチン|海岸, "
        "草原>キッチン|海岸, 海岸>道路|森, 芝生>砂浜|雪, 雪>砂浜|芝生, 空>海|森, 水>草|雪, 人>犬|馬, "
        "ソファー>ベッド|ベンチ, 電話>本|コップ, 携帯電話>本|コップ, ラケット>傘|ギター, "
        "バット>傘|ギター, 皿>鍋|盆"
    ),
}

_ATTRIBUTES_EN = {
    **_groups("red blue green yellow black white brown purple pink", "wooden metal plastic", "striped plaid"),
    **_pairs(
        "small=large, little=big, young=old, tall=short, wet=dry, open=closed, full=empty, dark=bright, "
        "happy=sad, clean=dirty, thin=thick, narrow=wide, sunny=rainy, new=worn out"
    ),
    **_arrows(
        "long>short, tiny>huge, huge>tiny, gray>green|red, grey>green|red, orange>blue|green, blond>bald"
    ),
}

_ATTRIBUTES_JA = {
    **_groups("赤い 青い 白い 黒い 黄色い 茶色い", "赤 青 白 黒 緑 ピンク 紫", "木製 金属製 プラスチック製"),
    **_pairs(
        "大きい=小さい, 大きな=小さな, 長い=短い, 新しい=古い, 高い=低い, 明るい=暗い, 太い=細い, 広い=狭い, "
        "厚い=薄い, 若い=年老いた, 重い=軽い, 濡れた=乾いた"
    ),
    **_arrows(
        "黄色>青|赤, 茶色>青|緑, オレンジ色>青|緑, オレンジ>青|緑, 水色>赤|黒, グレー>赤|緑, 灰色>赤|緑, "
        "たくさん>少し, 大勢>わずか, カラフル>真っ黒, 白黒>カラー"
    ),
}

COUNTS_EN = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COUNTS_JA = tuple("一二三四五六七八九")
DIGITS_EN = {word: str(number) for number, word in enumerate(COUNTS_EN, start=2)}
DIGITS_JA = {**dict(zip(COUNTS_JA, "123456789", strict=True)), "一人": "1人", "二人": "2人"}

_NUMBERS_EN = {
    **{word: tuple(w for w in COUNTS_EN[:5] if w != word) for word in COUNTS_EN},
    **{digit: tuple(d for d in "23456" if d != digit) for digit in DIGITS_EN.values()},
}
_NUMBERS_JA = {
    **{word: tuple(w for w in COUNTS_JA[:5] if w != word) for word in COUNTS_JA},
    **{digit: tuple(d for d in "12345" if d != digit) for digit in "123456789"},
    **{digit: tuple(d for d in "１２３４５" if d != digit) for digit in "１２３４５６７８９"},
    "一人": ("二人", "三人"),
    "二人": ("一人", "三人", "四人"),
}

_RELATIONS_EN = {
    **_pairs(
        "in front of=behind, inside=outside, above=below, left=right, up=down, into=out of, toward=away from"
    ),
    **_arrows(
        "on top of>underneath, on>under, under>on top of, underneath>on top of, beneath>on top of, "
        "over>under, "
        "next to>far from, beside>far from, near>far from, towards>away from, through>around"
    ),
}
_RELATIONS_JA = {
    **_pairs("の上=の下, の中=の外, の前=の後ろ, の右=の左, の内側=の外側, の手前=の奥"),
    **_arrows(
        "のうえ>のした, の隣>の向かい, の横>の向かい, のそば>の遠く, の近く>の遠く, の後>の前, の間>の外"
    ),
}

_SYNONYMS_EN = {
    **_pairs(
        "bike=bicycle, bikes=bicycles, couch=sofa, couches=sofas, photo=photograph=picture, "
        "kid=child, kids=children, "
        "rock=stone, rocks=stones, motorcycle=motorbike, motorcycles=motorbikes, airplane=plane, "
        "airplanes=planes, television=tv, cell phone=mobile phone, sidewalk=pavement, fridge=refrigerator, "
        "taxi=cab, forest=woods, ocean=sea, large=big, small=little, next to=beside, close to=near, "
        "under=underneath, pants=trousers, sitting=seated, jumping=leaping, jumps=leaps, "
        "laptop=notebook computer, bunny=rabbit, beautiful=pretty, infant=baby, stroller=baby carriage"
    ),
    **_arrows("walking>strolling, looking at>watching, photograph>photo|picture, lady>woman"),
}
_SYNONYMS_JA = _pairs(
    "自動車=車, 男性=男の人, 女性=女の人, 道=道路, バイク=オートバイ, 台所=キッチン, 大きい=大きな, "
    "小さい=小さな, "
    "赤い=赤色の, 青い=青色の, 白い=白色の, 黒い=黒色の, 緑の=緑色の, 近く=そば, スマホ=スマートフォン, "
    "パソコン=コンピューター, トイレ=お手洗い, 海岸=浜辺, 砂浜=ビーチ, 飛行機=航空機, ソファ=ソファー, "
    "ラップトップ=ノートパソコン, 机=デスク, スキーヤー=スキーをする人, サーファー=サーフィンをする人, "
    "子供たち=子供達, 赤ちゃん=赤ん坊, 少年=男の子, 少女=女の子, "
    "見ている=眺めている, 置かれている=置いてある, 立っている=佇んでいる, 食べ物=食品, 列車=電車, の隣=の横"
)
_SPELLINGS_EN = _pairs(
    "gray=grey, color=colour, colors=colours, colored=coloured, colorful=colourful, t-shirt=tee-shirt, "
    "airplane=aeroplane, airplanes=aeroplanes, donut=doughnut, donuts=doughnuts, pajamas=pyjamas, tire=tyre, "
    "tires=tyres, center=centre, theater=theatre, tv=TV, jewelry=jewellery, blond=blonde, "
    "skateboard=skate-board, "
    "neighborhood=neighbourhood, ok=okay, barbecue=barbeque, hotdog=hot dog, cellphone=cell phone, "
    "toward=towards"
)
_SPELLINGS_JA = _pairs(
    "犬=いぬ=イヌ, 猫=ねこ=ネコ, 馬=うま, 牛=うし, 羊=ひつじ, 鳥=とり, 象=ゾウ, 熊=くま=クマ, "
    "椅子=いす=イス, "
    "机=つくえ, 傘=かさ, 鞄=かばん=カバン, 帽子=ぼうし, 眼鏡=めがね=メガネ, 凧=たこ, 皿=さら, "
    "箱=はこ, 人=ひと, "
    "子供=子ども=こども, 道=みち, 花=はな, 海=うみ, 空=そら, 山=やま, 車=くるま, 薔薇=バラ, "
    "苺=いちご=イチゴ, "
    "林檎=りんご=リンゴ, 蜜柑=みかん=ミカン, 玉葱=たまねぎ, 人参=にんじん=ニンジン, 綺麗=きれい, "
    "沢山=たくさん, "
    "美味しい=おいしい, 白い=しろい, 赤い=あかい, 青い=あおい, 黒い=くろい, 大きな=おおきな, "
    "小さな=ちいさな, "
    "前=まえ, 上=うえ, 下=した, 中=なか, 隣=となり, 横=よこ, 後ろ=うしろ, 葉=は, 木=き, 縞馬=シマウマ"
)

Lists = Mapping[str, Choices]


def _of(english: Choices, japanese: Choices) -> Lists:
    return MappingProxyType({"en": english, "ja": japanese})


WRONG = {
    "object": _of(_OBJECTS_EN, _OBJECTS_JA),
    "attribute": _of(_ATTRIBUTES_EN, _ATTRIBUTES_JA),
    "number": _of(_NUMBERS_EN, _NUMBERS_JA),
    "relation": _of(_RELATIONS_EN, _RELATIONS_JA),
}
"""{what is changed: {language: {word: wrong words}}}."""

ALIKE = {"synonym": _of(_SYNONYMS_EN, _SYNONYMS_JA), "script": _of(_SPELLINGS_EN, _SPELLINGS_JA)}
"""{what is changed: {language: {word: words that say the same}}}."""

_OWNERS = word_set("a an the his her its their my some two three four several")
_CLIMBED = word_set("climb climbs climbing climber climbers face faces wall walls band bands star stars")
NO_SYNONYM_BEFORE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "near": word_set("to"),
        "sitting": word_set("down up"),
        "walking": _OWNERS | word_set("dog dogs stick sticks"),
        "rock": _CLIMBED | word_set("concert music"),
        "little": word_set("league bit"),
        "jumping": word_set("rope jacks"),
        "jumps": word_set("rope"),
        "sea": word_set("lion lions"),
    }
)
"""{English word: words before which the synonyms of the list do not say the same, or nothing}."""
NO_SYNONYM_AFTER: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "bike": word_set("dirt mountain motor motocross quad"),
        "bikes": word_set("dirt mountain motor motocross quad"),
        "jumps": word_set("ski dirt"),
        "forest": word_set("a"),
    }
)
"""{English word: words after which they do not}."""
SYNONYM_AFTER: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "pants": LOOKS
        | word_set(
            "in wearing wears with of no his her their khaki camouflage denim leather jean sweat cargo"
        )
        | word_set("cropped long short baggy dress snow ski")
    }
)
"""{English word: words after which alone they do: a dog pants}."""

ADDITIONS: Mapping[str, tuple[Addition, ...]] = {
    "en": (
        Addition("with a red umbrella", "umbrella"),
        Addition("next to an elephant", "elephant"),
        Addition("beside a fire truck", "truck"),
        Addition("near a lighthouse", "lighthouse"),
        Addition("with a snowman in the background", "snowman"),
        Addition("while a clown is watching", "clown"),
        Addition("under a large clock", "clock"),
        Addition("with a birthday cake", "cake"),
    ),
    "ja": (
        Addition("赤い傘の下で", "傘"),
        Addition("象の隣で", "象"),
        Addition("消防車の横で", "消防車"),
        Addition("灯台の近くで", "灯台"),
        Addition("雪だるまの前で", "雪だるま"),
        Addition("ピエロと一緒に", "ピエロ"),
        Addition("大きな時計の下で", "時計"),
        Addition("誕生日ケーキの横で", "ケーキ"),
    ),
}

GENERIC: Mapping[str, tuple[str, ...]] = {
    "en": (
        "a photo of something",
        "a picture of something",
        "an image of a scene",
        "there is something in the picture",
    ),
    "ja": ("何かの写真", "何かが写っている写真", "ある場面の画像", "写真に何かが写っている"),
}
"""Captions that fit every picture."""


CLOTHES = word_set(
    "shirt shirts hat hats dress jacket coat skirt scarf helmet pants shorts uniform suit cap outfit jeans"
)
"""What somebody is "in" who is in no place."""

SOMEBODY = word_set(
    """person man men woman women boy boys girl girls child children kid kids baby babies toddler guy guys
    lady ladies adult adults people player players dog dogs"""
)
"""Who does something beside another, rather than being worn or carried."""

MORE_VERBS = word_set(
    """prepares turns tries writes knocks tosses raises raise peers spins scratches smokes fell caught uses
    creates observes opens perform performs aims smacks teaches cries embrace squeals wrestle clap"""
)
"""English verb forms besides :data:`suisei.probes.words.VERBS` that captions use as no noun."""

PLACE_PREPOSITIONS = word_set("in on at near under behind beside by inside outside")
PREPOSITIONS = PLACE_PREPOSITIONS | word_set(
    "with over through along across into from above against around during towards toward next beneath below"
)
CLAUSE_WORDS = word_set("and or but while as who that which where when to , ; :")
"""Where an English phrase ends."""

WAYS = word_set("street road roads sidewalk track tracks path beach hallway aisle lane alley runway")
"""What one goes up as one goes down it."""
NO_PLACES = word_set("phone cellphone top hind day night fire")
"""What something is "on" and nothing is "under" instead."""

GODAN_RU = word_set(
    """走る 乗る 座る 切る 滑る 登る 降る 光る 回る 渡る 踊る 眠る 送る 作る 売る 取る 撮る 釣る
    曲がる 止まる 集まる
    写る 残る 張る 貼る 蹴る 掘る 握る 塗る 飾る 配る 測る 折る 振る 触る 入る 帰る 散る 守る
    被る かぶる
    寄りかかる ぶら下がる 広がる 転がる 上がる 下がる 群がる 繋がる つながる 映る 通る 移る
    なる とる のる すわる すべる しゃべる"""
)
"""Verbs on る whose polite form is on ります."""

ICHIDAN_VERBS = ("居る", "見る", "着る", "寝る", "出る", "煮る", "似る")
"""Verbs of one kanji and る whose polite form is on ます."""
