"""Drawing with matplotlib, without a display: one style, one colour per transport everywhere."""
