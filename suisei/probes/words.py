"""Word lists by which captions are degraded: function words, verbs, nouns that name no thing."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list separated by blanks."""
    return frozenset(text.split())


STOP_WORDS = word_set(
    """a an the this that these those some any every each both several many few no not and or but nor so as
    of in on at by to from into onto over under above below behind beside between through across along around
    near next with without against toward towards up down off out inside outside during while for than then
    there here it its he his him she her hers they their them we our us i my me you your who which what where
    when is are was were be been being am has have had do does did can could will would may might must very
    too also just only all other another one two three four five six seven eight nine ten top front back side
    left right middle center centre forward backward together whilst about after before away alongside past
    amid among amongst upon within via beyond until since because if though although even again already yet
    how why ahead apart around cannot atop underneath beneath throughout opposite nearby upside downhill
    uphill indoors outdoors besides except versus per plus himself herself itself themselves myself ourselves
    oneself whom same either neither"""
)

ARTICLES = word_set("a an the some one two three four five six several many")

AUXILIARIES = word_set("is are was were can could will would has have had must may might does do did")

ING_NOUNS = word_set(
    """building ceiling railing clothing evening morning wedding painting spring string swing thing something
    nothing anything everything crossing opening sibling king ring wing"""
)

ABOUT_PICTURES = word_set(
    """image picture photo photograph illustration drawing scene view part kind sort
    画像 写真 絵 イラスト 風景 光景 場面"""
)

NOT_THINGS = ABOUT_PICTURES | word_set(
    """上 下 中 前 横 隣 後ろ そば 傍 近く 手前 奥 左 右 側 こと もの 物 様子 姿 ところ 所
    赤 青 白 黒 緑 黄色 茶色 赤色 青色 白色 黒色 緑色 水色 紫 紫色 ピンク オレンジ グレー 灰色"""
)

LOOKS = word_set(
    """red blue green yellow black white brown purple pink gray grey orange tan gold golden silver cream beige
    teal turquoise maroon navy fuchsia neon light dark bright big large small little wooden metal plastic
    striped plaid checkered checked multicolored multi-colored"""
)
"""English words for how a thing looks, of which two may stand before it: red and white, big, brown."""

SYMMETRIC = {
    "en": word_set("and or & , a an the some next to beside near by"),
    "ja": word_set("と や も か 、 , 及び および または"),
}
"""Words between two nouns that may change places and say the same."""

_PLAIN_VERBS = word_set(
    """run walk sit stand jump play hold wear ride look eat sleep swim climb throw kick lie smile talk lean
    drive hang point show seem appear wait work read sing lay leap bark surf gather make take give chase pose
    dance gaze skate race follow come get laugh enjoy bring pull lick chew stare kneel"""
)

VERBS = {
    **{verb: verb for verb in _PLAIN_VERBS},
    **{f"{verb}s": verb for verb in _PLAIN_VERBS},
    **{verb: verb for verb in word_set("catch watch pass reach push brush carry fly")},
    **{f"{verb}es": verb for verb in word_set("catch watch pass reach push brush")},
    "carries": "carry",
    "flies": "fly",
}
"""English verb forms that captions use, with their base forms."""
