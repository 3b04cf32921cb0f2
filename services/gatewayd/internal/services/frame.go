package services

import (
	"bytes"
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// frame is a message in protobuf's binary form, in which most messages pass unchanged.
type frame struct {
	of    protoreflect.MessageType
	bytes []byte
}

// message decodes the frame.
func (f *frame) message() (proto.Message, error) {
	m := f.of.New().Interface()
	if err := proto.Unmarshal(f.bytes, m); err != nil {
		return nil, fmt.Errorf("it is no %s: %w", f.of.Descriptor().Name(), err)
	}
	return m, nil
}

func frameOf(v any) (*frame, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("expected a frame, got %T", v)
	}
	return f, nil
}

// protoCodec is Connect's protobuf codec for frames. Connect also encodes the statuses of gRPC errors with it.
type protoCodec struct{}

// Name implements connect.Codec.
func (protoCodec) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (protoCodec) Marshal(v any) ([]byte, error) {
	if m, ok := v.(proto.Message); ok {
		return proto.Marshal(m)
	}
	f, err := frameOf(v)
	if err != nil {
		return nil, err
	}
	return f.bytes, nil
}

// Unmarshal implements connect.Codec.
func (protoCodec) Unmarshal(data []byte, v any) error {
	f, err := frameOf(v)
	if err != nil {
		return err
	}
	f.bytes = bytes.Clone(data) // the caller reuses data
	_, err = f.message()        // an invalid message is the client's error, not an internal one
	return err
}

// jsonCodec is Connect's JSON codec for frames.
type jsonCodec struct{}

// Name implements connect.Codec.
func (jsonCodec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (jsonCodec) Marshal(v any) ([]byte, error) {
	f, err := frameOf(v)
	if err != nil {
		return nil, err
	}
	m, err := f.message()
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(m)
}

// Unmarshal implements connect.Codec. Unknown fields are an error, so that a caller notices a misspelled one.
func (jsonCodec) Unmarshal(data []byte, v any) error {
	f, err := frameOf(v)
	if err != nil {
		return err
	}
	m := f.of.New().Interface()
	if err := protojson.Unmarshal(data, m); err != nil {
		return err
	}
	f.bytes, err = proto.Marshal(m)
	return err
}

// raw is gRPC's protobuf codec for frames.
type raw struct{}

// Name implements encoding.CodecV2.
func (raw) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	f, err := frameOf(v)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(f.bytes)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	f, err := frameOf(v)
	if err != nil {
		return err
	}
	f.bytes = data.Materialize()
	return nil
}
