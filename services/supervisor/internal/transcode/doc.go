// Package transcode turns the JSON params of a JSON-RPC method into the protobuf request of the RPC that answers it, and
// the RPC's response, or its error, back into JSON.
//
// Everything it knows of a method comes from descriptors: each message is compiled once into a plan, and by the plan JSON
// becomes wire bytes and wire bytes become JSON, with no message objects in between. So a handler whose descriptors were
// never seen before costs the same as one of acphost's own. Large strings are handed over by reference, in both
// directions.
//
// The mapping is protobuf's own JSON mapping with these differences, because ACP's schema is the other side of it:
//   - JSON names count, the names in the .proto do not.
//   - null is an absent member. Unknown members are ignored.
//   - Integers are JSON numbers, 64-bit ones too; on the way in 1.0 and 1e3 are integers and "1" is not.
//   - A field without presence is written even where it is zero, a repeated one even where it is empty; fields with
//     presence are written where they are present.
//   - A string field with the verbatim option carries a raw JSON value.
//   - A field of type CallContext or CallResult has no JSON name. The context of a request is set by the caller; the
//     result of a response is returned to the caller.
//   - A member that occurs twice, or in another case than it has, makes a message ambiguous: it is refused.
//
// It must not know any method or handler by name.
package transcode
