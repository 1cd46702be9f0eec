use stateright::{Model, Property};
use std::fmt::Debug;
use std::hash::Hash;

/// A protocol as a transition system: its initial state, the actions that are enabled in a state, and their effects.
pub trait Protocol: Send + Sync + Sized + 'static {
    /// The state of all clients and servers, with the messages in flight.
    type State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static;
    /// One atomic step of a client, a server or the environment.
    type Action: Clone + Debug + PartialEq + 'static;

    /// The bounds of the exploration, as the table shows them.
    fn bounds(&self) -> String;

    /// The only initial state.
    fn initial_state(&self) -> Self::State;

    /// Adds every action that is enabled in `state`.
    fn enabled_actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>);

    /// Changes `state` by an enabled action.
    fn apply(&self, state: &mut Self::State, action: Self::Action);

    /// False for a state that is beyond the bounds, and therefore not explored. By default all states are within them.
    fn is_within_bounds(&self, _state: &Self::State) -> bool {
        true
    }

    /// The properties to check. `Property::always` must hold in every state, `Property::sometimes` in at least one.
    fn properties(&self) -> Vec<Property<ProtocolModel<Self>>>;

    /// True if every client got what it wanted. Such a state must be reachable: a protocol that does nothing satisfies every invariant.
    fn is_done(&self, state: &Self::State) -> bool;
}

/// Adapts a [`Protocol`] to the `Model` of stateright.
#[derive(Debug)]
pub struct ProtocolModel<P>(pub(crate) P);

impl<P: Protocol> Model for ProtocolModel<P> {
    type State = P::State;
    type Action = P::Action;

    fn init_states(&self) -> Vec<P::State> {
        vec![self.0.initial_state()]
    }

    fn actions(&self, state: &P::State, actions: &mut Vec<P::Action>) {
        self.0.enabled_actions(state, actions);
    }

    fn next_state(&self, last: &P::State, action: P::Action) -> Option<P::State> {
        let mut state = last.clone();
        self.0.apply(&mut state, action);
        Some(state)
    }

    fn within_boundary(&self, state: &P::State) -> bool {
        self.0.is_within_bounds(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = self.0.properties();
        properties.push(Property::sometimes("done", |model: &Self, state| model.0.is_done(state)));
        properties
    }
}
