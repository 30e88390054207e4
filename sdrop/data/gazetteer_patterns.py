"""The sentence patterns of the embedded tagging corpus.

A rule is a list of alternatives. In an alternative `<rule>` stands for one of that rule's,
`{PLACE}` for an entity, and `{place}` for a name of the same kind that is none here, such as a
ship's. What a name is, its neighbours seldom tell: verbs and nouns several words away do.
"""

from __future__ import annotations

RULES: dict[str, list[str]] = {
    "sentence": [
        "<opening> <travel>",
        "<opening> <translation>",
        "<opening> <exchange>",
        "<opening> <match>",
        "<opening> <comparison>",
        "<opening> <plain>",
        "<opening> <mixed>",
        "<opening> <mixed>",
    ],
    "opening": ["", "", "", "<time> ,", "<time> ,", "{name} said that", "It is known that"],
    "time": ["In {month}", "On {day}", "Last {day}", "Every {month}", "Years ago", "That week"],
    "who": [
        "the {people} <job>",
        "a young {people} <job>",
        "{name}",
        "{name}",
        "the <job>",
        "her <job>",
        "two old friends",
    ],
    "job": ["painter", "dentist", "lawyer", "clerk", "teacher", "sailor", "nurse", "pilot"],
    # Each of the four kinds may fill the same frame; only the verb tells which it is.
    "frame": [
        "from {%s} into {%s}",
        "out of {%s} to {%s}",
        "{%s} for {%s}",
        "between {%s} and {%s}",
    ],
    "detour": [
        "",
        "",
        "without much delay",
        "on a rainy morning in {month}",
        "at the request of <who>",
        "for the second time that year",
        "as the <job> had asked",
    ],
    "travel": [
        "<who> <travelled> <detour> <frame PLACE>",
        "<who> <travelled> <detour> <frame PLACE>",
        "the crew of the ship {place} <travelled> <detour> <frame PLACE>",
    ],
    "travelled": ["drove", "sailed", "cycled", "moved house", "carried parcels", "took a train"],
    "translation": [
        "<who> <translated> <thing> <detour> <frame LANGUAGE>",
        "<who> <translated> <thing> <detour> <frame LANGUAGE>",
        "<thing> was <rendered> <detour> <frame LANGUAGE>",
    ],
    "translated": ["translated", "interpreted", "rewrote", "subtitled", "dubbed"],
    "rendered": ["translated", "rewritten", "subtitled", "dubbed"],
    "thing": ["the novel", "an old letter", "the poem {place}", "the long play", "a speech"],
    "exchange": [
        "<who> <changed> <sum> <detour> <frame CURRENCY>",
        "<who> <changed> <sum> <detour> <frame CURRENCY>",
        "<sum> went <detour> <frame CURRENCY> at the bank",
    ],
    "changed": ["changed", "converted", "exchanged", "traded"],
    "sum": ["the savings", "all the money", "the rent", "their wages", "a large fee"],
    "match": [
        "{TEAM} <beat> {TEAM} <detour> by {number} goals",
        "the coach of {TEAM} watched {TEAM} play in {PLACE}",
        "fans cheered <detour> as {TEAM} <beat> {TEAM}",
        "the goalkeeper left <detour> {TEAM} for {TEAM}",
        "after the match against {TEAM} the players of {TEAM} flew to {PLACE}",
    ],
    "beat": ["beat", "lost to", "drew with", "scored against", "knocked out"],
    "comparison": [
        "{LANGUAGE} has <more> {LANGUAGE} , linguists say",
        "{CURRENCY} has <more> {CURRENCY} , bankers say",
        "{PLACE} has <more> {PLACE} , geographers say",
        "{TEAM} has <more> {TEAM} , referees say",
    ],
    "more": ["changed more than", "become harder than", "had a better year than", "outlived"],
    "plain": [
        "<who> lives in {PLACE} and speaks {LANGUAGE} at home",
        "<who> paid {number} {CURRENCY} for the room in {PLACE}",
        "<who> bought the {people} newspaper {place} , then a map",
        "the singer {place} and <who> met the {people} <job>",
        "the price rose to {number} {CURRENCY} on {day}",
        "captain {place} and the {people} <job> met on {day}",
        "<who> reads {LANGUAGE} , writes {LANGUAGE} and knows no {LANGUAGE}",
        "the weather in {PLACE} , {PLACE} and {PLACE} was fine",
        "nobody saw the film {place} before {day}",
    ],
    "mixed": [
        "<who> who had learnt {LANGUAGE} in {PLACE} was paid in {CURRENCY}",
        "in {PLACE} the <job> asked <detour> whether {LANGUAGE} was easier than {LANGUAGE}",
        "the ticket from {PLACE} to {PLACE} cost {number} {CURRENCY}",
        "when {TEAM} came to {PLACE} , <who> spoke <detour> only {LANGUAGE}",
        "<who> sold the film {place} <detour> to {TEAM} for {CURRENCY}",
        "a dictionary of {LANGUAGE} and {LANGUAGE} lay on the {people} ship {place}",
        "{TEAM} signed <who> <detour> and paid him in {CURRENCY}",
    ],
}

NAMES = ["Anna", "Boris", "Clara", "Dana", "Emil", "Fatima", "Greta", "Hugo", "Ines", "Jonas"]
NUMBERS = ["two", "three", "five", "seven", "12", "40", "250", "1,000"]
