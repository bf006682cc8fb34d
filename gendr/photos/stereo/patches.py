"""What patches are and cost: numbers for those who match, and for those who only ask to."""

# A patch is SIDE x SIDE samples.
SIDE = 4
SAMPLES = SIDE * SIDE
# Numbers that are matched are in -1 .. 1; so much of one is a step of 16 bits.
UNIT = 2 / 65535
# Samples of other brightness count less: half a step of this much.
LIKE = 0.15
# A patch of less variance has no pattern.
FLAT = 4e-5
# The costs of what is outside of the other photo, and of what has no pattern there.
OUTSIDE, UNLIKE = 1.2, 1.0
# Photos that judge a plane, at most, and the cost of a pixel that has no pattern.
BEST, NOTHING = 3, 2.0
