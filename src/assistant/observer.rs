//! Watching a turn from outside.
//!
//! Owns the moments that can be watched. Whoever watches changes nothing, and gets texts that must not
//! reach a log: only the person who asked may see them.

use super::LegReason;
use super::backends::{BackendTurn, ToolCall};
use super::tools::Executed;

/// Is told what happens in a turn, in order.
pub trait Observer: Send + Sync {
    /// A model's reply as it came, before it is read.
    fn raw(&self, _reply: &str) {}
    /// A reply that broke the protocol, and how; the model is asked again.
    fn rejected(&self, _why: &str) {}
    /// A leg did not answer.
    fn skipped(&self, _leg: &LegReason) {}
    /// A leg answered; what was read of it.
    fn answered(&self, _leg: &'static str, _turn: &BackendTurn) {}
    /// The model is reminded of the tool that the question needs.
    fn reminded(&self, _tool: &str) {}
    /// The call that the question needs is made without the model.
    fn made_for_the_model(&self, _call: &ToolCall) {}
    /// A call is about to be checked.
    fn calling(&self, _call: &ToolCall) {}
    /// What became of it.
    fn called(&self, _call: &ToolCall, _executed: &Executed) {}
}

/// Two who watch.
#[derive(Clone, Copy)]
pub struct Both<'a>(pub &'a dyn Observer, pub &'a dyn Observer);

impl Observer for Both<'_> {
    fn raw(&self, reply: &str) {
        self.0.raw(reply);
        self.1.raw(reply);
    }

    fn rejected(&self, why: &str) {
        self.0.rejected(why);
        self.1.rejected(why);
    }

    fn skipped(&self, leg: &LegReason) {
        self.0.skipped(leg);
        self.1.skipped(leg);
    }

    fn answered(&self, leg: &'static str, turn: &BackendTurn) {
        self.0.answered(leg, turn);
        self.1.answered(leg, turn);
    }

    fn reminded(&self, tool: &str) {
        self.0.reminded(tool);
        self.1.reminded(tool);
    }

    fn made_for_the_model(&self, call: &ToolCall) {
        self.0.made_for_the_model(call);
        self.1.made_for_the_model(call);
    }

    fn calling(&self, call: &ToolCall) {
        self.0.calling(call);
        self.1.calling(call);
    }

    fn called(&self, call: &ToolCall, executed: &Executed) {
        self.0.called(call, executed);
        self.1.called(call, executed);
    }
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Observer for Unwatched {}
