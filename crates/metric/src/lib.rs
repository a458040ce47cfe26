//! Scores equal to the field's reference tools: BLEU, chrF, TER, ROUGE, F1, exact match.
