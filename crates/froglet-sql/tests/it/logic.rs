//! Files of statements and expected answers, run through both execution paths.
