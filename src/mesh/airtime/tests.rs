//! Tests of the ledger on disk and of the admission.
