//! What is asked for, by whom, and how often.
