//! The legs against a scripted server: what is sent, and what is made of each recorded answer.
