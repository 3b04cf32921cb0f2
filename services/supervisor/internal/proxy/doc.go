// Package proxy is the room for the connection between a client and an agent.
//
//   - agent: the process of the agent; handshake: queries an agent's description
//   - link: reads, decides, routes and forwards the messages in both directions
//   - display: adapts messages to what a client can show
package proxy
