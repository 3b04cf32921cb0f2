// Package socket makes connections between a host and its handlers cheaper. It knows sockets alone: not gRPC, nor who is at
// the other end.
package socket
