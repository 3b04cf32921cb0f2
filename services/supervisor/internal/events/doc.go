// Package events is the room for the record of sessions: it turns observed messages into events, stores them, and serves
// them to watchers.
//
//   - event: the events of a session, and the decoder that derives them from messages
//   - activity: the live events of all agents, for watchers
//   - journal: recordings on disk, with an index; replay reads them as live events
//   - usage, heat, filefeed: what a session costs, and which files it uses
//   - telemetry, span: metrics and traces
//
// Its packages do not affect a message: they observe.
package events
