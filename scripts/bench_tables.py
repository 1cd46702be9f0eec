"""Tables of figures, each beside its goal: printed as they come, and put into docs/generated/bench.md."""
import operator, statistics

SAID, MISSED = [], []
NOISE = 0.25
HOLDS = {"≥": operator.ge, "≤": operator.le, "<": operator.lt}


def heading(text):
    say(f"\n### {text}\n")


def table(*columns):
    line(*columns)
    line(*["---"] * len(columns))


def line(*cells):
    say("| " + " | ".join(str(cell) for cell in cells) + " |")


def say(text):
    SAID.append(text)
    print(text, flush=True)


def goal(what, value, sign, bound, unit=""):
    """Two cells: the goal, and whether this figure meets it. Empty where there is no figure."""
    if value is None or bound is None:
        return "", ""
    met = HOLDS[sign](value, bound)
    if not met:
        value = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
        MISSED.append(f"{what}: {value}{unit}, and the goal is {sign} {bound:,}{unit}")
    return f"{sign} {bound:,}{unit}", "met" if met else "**not met**"


def verdict():
    heading("Goals that were not met")
    for missed in MISSED or ["None."]:
        say(f"* {missed}" if MISSED else missed)


def passes(rows, what):
    """The figure of each window: a run has two at most, and so no others than its lowest and its highest."""
    return [row[what][end] for row in rows if row[what] for end in ("min", "max")]


def figures(rows, what):
    return [row[what] for row in rows if row and row[what] is not None]


def median(values):
    return statistics.median(values) if values else None


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def shown(value, form=".1f"):
    return "" if value is None else format(value, form)


def spread(values, form):
    """The median, and the middle half behind it; and a word if that is too wide for small differences."""
    if not values:
        return ""
    low, middle, high = quartiles(values)
    return f"{middle:{form}} ({low:{form}}–{high:{form}})" + (", noisy" if high - low > NOISE * middle else "")


def write(file):
    """Puts what was said between the two marks of the file, in the place of what stood there."""
    text = open(file).read()
    begin = text.index("-->\n", text.index("<!-- scripts/bench")) + 4
    end = text.index("<!-- end -->", begin)
    said = "\n".join(SAID)
    with open(file, "w") as out:
        out.write(f"{text[:begin]}\n{said}\n\n{text[end:]}")
