"""Kernel machines. The word kernel means Mercer's here."""
