use stateright::{Model, Property};
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::Deref;

/// A protocol: one state in the beginning, what may happen next, and what that does.
pub trait Machine: Send + Sync + Sized + 'static {
    /// All that there is at one moment.
    type State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static;
    /// One step of somebody.
    type Action: Clone + Debug + PartialEq + 'static;

    /// How much of it there is, in words for people.
    fn bounds(&self) -> String;

    /// The beginning.
    fn begins(&self) -> Self::State;

    /// Adds everything that may happen in this state.
    fn may_happen(&self, state: &Self::State, actions: &mut Vec<Self::Action>);

    /// Does it.
    fn happens(&self, state: &mut Self::State, action: Self::Action);

    /// False for a state that is left out. By default, none is.
    fn is_explored(&self, _state: &Self::State) -> bool {
        true
    }

    /// What is to hold in every state.
    fn promises(&self) -> Vec<Property<Explored<Self>>>;

    /// True if everybody has got what they want. Some state must be such, or the rest holds of a machine that does nothing.
    fn is_done(&self, state: &Self::State) -> bool;
}

/// A machine, as the model checker wants it.
#[derive(Debug)]
pub struct Explored<M>(pub(crate) M);

impl<M> Deref for Explored<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.0
    }
}

impl<M: Machine> Model for Explored<M> {
    type State = M::State;
    type Action = M::Action;

    fn init_states(&self) -> Vec<M::State> {
        vec![self.begins()]
    }

    fn actions(&self, state: &M::State, actions: &mut Vec<M::Action>) {
        self.may_happen(state, actions);
    }

    fn next_state(&self, last: &M::State, action: M::Action) -> Option<M::State> {
        let mut state = last.clone();
        self.happens(&mut state, action);
        Some(state)
    }

    fn within_boundary(&self, state: &M::State) -> bool {
        self.is_explored(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = self.promises();
        properties.push(Property::sometimes("done", |machine: &Self, state| machine.is_done(state)));
        properties
    }
}
