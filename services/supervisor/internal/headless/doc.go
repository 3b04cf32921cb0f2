// Package headless is the room for agents without an editor: acphost itself is their client.
//
//   - programs: sessions and turns for programs, chat and prompt
//   - acpclient: the answers of such a client to an agent's requests
package headless
