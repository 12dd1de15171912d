"""Drawing with matplotlib, without a display. All drawings share one style and one colour per transport."""
