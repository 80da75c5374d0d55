//! What the node does on a mesh that loses, repeats and delays, measured in virtual time against what it promises.

mod captures;
mod cost;
mod day;
mod loss;
mod storm;
