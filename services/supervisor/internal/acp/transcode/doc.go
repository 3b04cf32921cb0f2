// Package transcode converts the JSON params of a JSON-RPC method to the protobuf request of its RPC, and converts the
// response or the error of the RPC back to JSON.
//
// It knows a method only by its descriptor. Each message is compiled once into a plan, which converts between JSON and
// wire bytes without message objects in between. So a handler with unknown descriptors costs the same as one of
// acphost's own. Large strings are not copied, in either direction.
//
// The mapping is protobuf's own JSON mapping, with these differences, because it has to fit ACP's schema:
//   - JSON names count, the names in the .proto do not.
//   - null is a missing member. Unknown members are ignored.
//   - Integers are JSON numbers, 64-bit integers too. In a request, 1.0 and 1e3 are integers and "1" is not.
//   - A field without presence is written even if it is zero, and a repeated field even if it is empty. A field with
//     presence is written if it is present.
//   - A string field with the verbatim option contains a raw JSON value.
//   - A field of type CallContext or CallResult has no JSON name. The caller sets the context of a request, and gets
//     the result of a response.
//   - A member that occurs twice, or with its name in another case, makes a message ambiguous: the message is rejected.
//
// The package must not know any method or handler by name.
package transcode
