//! names_and_lists
