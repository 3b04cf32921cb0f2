// Package proto is the root of acphost's contracts: the .proto files and the Go code generated from them, side by side
// under acphost/. Nothing here is written by hand but the .proto files. It depends on protobuf and gRPC alone, so that
// a client of acphost's services can import it without the rest.
package proto
