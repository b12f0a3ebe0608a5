"""What the commands and words of an answer are to the reader: typography, another spelling, a function, a unit."""

from __future__ import annotations


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


DROPPED = _names(
    "displaystyle textstyle scriptstyle scriptscriptstyle left right middle big Big bigg Bigg bigl bigr Bigl Bigr "
    "biggl biggr Biggl Biggr bigm limits nolimits bf it sf tt sl sc cal em boldmath tiny small normalsize large "
    "Large LARGE huge Huge quad qquad enspace thinspace medspace thickspace negthinspace hfill hfil newline par "
    "noindent centering nobreak allowbreak mathstrut strut boxed fbox displaylimits nonumber notag relax mathord "
    "mathbin mathrel mathopen mathclose mathpunct "
)
DROPPED_WITH_ARGUMENT = {
    "color": 1,
    "hspace": 1,
    "vspace": 1,
    "phantom": 1,
    "hphantom": 1,
    "vphantom": 1,
    "label": 1,
    "tag": 1,
}
UNWRAPPED = {"textcolor": 1, "colorbox": 1, "underline": 0, "emph": 0, "mathop": 0, "ensuremath": 0, "smash": 0}
UNWRAPPED |= dict.fromkeys(
    _names("mathbf mathit mathsf mathtt mathnormal boldsymbol bm bold pmb"), 0
)  # symbols in another face
TEXT = _names(
    "text textbf textit textrm textsf texttt textsc textnormal textup textmd mbox hbox mathrm operatorname operatorname* "
)
SAME = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom", "leq": "le", "leqslant": "le",
    "leqq": "le", "geq": "ge", "geqslant": "ge", "geqq": "ge", "neq": "ne", "times": "cdot", "ast": "cdot", "bullet": "cdot",
    "dots": "ldots", "cdots": "ldots", "dotsc": "ldots", "dotsb": "ldots", "vdots": "ldots", "infin": "infty",
    "deg": "degree", "Bbb": "mathbb",
    "varnothing": "emptyset", "empty": "emptyset", "varphi": "phi", "varepsilon": "epsilon", "vartheta": "theta",
    "varrho": "rho", "tg": "tan", "ctg": "cot", "tgh": "tanh", "arctg": "arctan", "lg": "log", "divides": "mid",
    "rightarrow": "to", "longrightarrow": "to", "bigcup": "cup", "sqcup": "cup", "backslash": "setminus", "owns": "ni",
    "overrightarrow": "vec", "widehat": "hat", "bar": "overline", "widetilde": "tilde", "thickapprox": "approx",
    "sim": "approx", "iff": "Leftrightarrow", "land": "wedge",
}  # fmt: skip
PLAIN = {
    "lbrace": "\\{", "rbrace": "\\}", "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")", "lvert": "|", "rvert": "|",
    "vert": "|", "lVert": "\\|", "rVert": "\\|", "Vert": "\\|", "div": "/", "colon": ":", "lt": "<", "gt": ">", "prime": "'",
    "slash": "/", "pounds": "\\$", "euro": "\\$", "textdollar": "\\$", "lor": '"or', "vee": '"or', "minus": "-", "plus": "+",
    "comma": ",", "lgroup": "(", "rgroup": ")",
}  # fmt: skip
ARGUMENTS = {"frac": 2, "binom": 2, "sqrt": 1, "overline": 1, "vec": 1, "hat": 1, "dot": 1, "ddot": 1, "tilde": 1, "pmod": 1}
ARGUMENTS |= {"mathbb": 1, "mathcal": 1, "mathfrak": 1, "mathscr": 1, "underbrace": 1, "overbrace": 1, "stackrel": 2}
ACCENTS = _names("overline vec hat dot ddot tilde mathbb mathcal mathfrak mathscr ")
FUNCTIONS = _names(
    "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan log ln exp max min gcd lcm det dim ker lim sup inf "
)
GREEK = _names(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi "
    "omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega hbar ell varpi varsigma "
)

# A unit under all its names. Two answers with units that are both listed and differ are different answers.
_UNITS = """
mm millimeter millimetre | cm centimeter centimetre | dm decimeter decimetre | m meter metre | km kilometer kilometre
in inch inche | ft foot feet | yd yard | mi mile | nm nanometer nanometre
mg milligram | g gram gm | kg kilogram | lb pound lbs | oz ounce | ton tonne
ms millisecond | s sec second | min minute | h hr hour | day | week | month | yr year
ml milliliter millilitre | l liter litre | gal gallon | acre | hectare ha | pint | quart | cup
degree deg | rad radian | arcsec arcsecond | arcmin
dollar usd | cent | euro eur | rupee rs | yuan rmb | pence | penny
hz hertz | khz | mhz | n newton | j joule | kj | w watt | kw | v volt | a ampere amp | ohm
pa pascal | kpa | atm | k kelvin | ev
mph | kmph kmh kph | bit | byte | mol mole | kcal | cal calorie | erg | c celsius | f fahrenheit
microm um micrometer micrometre micron | microg | micros | microf | microc | angstrom å | kohm | mohm | kev | mev | gev
dyn dyne | gauss | tesla t | bar | mbar | psi | kwh | parsec pc | kpc | mpc | ly | au | lightyear | farad
am | pm | sr steradian | lumen lm | candela cd | lux | weber wb | henry | coulomb
"""
UNITS = {
    name: names.split()[0] for line in _UNITS.strip().split("\n") for names in line.split("|") for name in names.split()
}
# Words that stand beside a value and change it: what they stand in is no unit.
CHANGING = _names(
    "or and not no if when where whenever for unless except than less more most least only but with without "
    "otherwise else at approximately approx about around nearly roughly over under below above between to from is "
    "are was be odd even mod modulo base squared cubed factorial factorials plus minus twice thrice times divided "
    "multiplied double triple infinity negative negatives percent percentage pct any all every some none neither either "
    "nor never fails cannot undefined wrong incorrect false true maybe so such that which integer integers fewer greater "
    "larger smaller bigger higher lower other another repeating recurring onward onwards upward upwards downward downwards "
    "loss losses profit profits "
)
_ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_PARTS = "half third quarter fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_MANY = "zero twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion dozen"
BASES = {word: str(number) for number, word in enumerate(_ONES.split(), 1) if number > 1}
# One, dozens, thirds, hundredths: numbers too, which multiply the value they stand behind.
COUNTS = frozenset(
    f"{word}{ending}" for word in [*_ONES.split(), *_PARTS.split(), *_MANY.split()] for ending in ("", "s", "th", "ths")
) | _names("lakh lakhs crore crores halves first second twentieth thirtieth score scores")
