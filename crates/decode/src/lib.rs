//! Choosing tokens: chains of transforms, picks and searches.
