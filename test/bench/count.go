package main

import (
	"context"
	"math"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // which countingCodec wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// counted is a response of WatchEvents, reduced to its number of events.
type counted struct{ events int }

// countingCodec is gRPC's own codec for protobuf. On request it counts messages instead of decoding them: otherwise
// decoding for many watchers would use most of the measured machine.
type countingCodec struct{ encoding.CodecV2 }

func (c countingCodec) Unmarshal(data mem.BufferSlice, v any) error {
	into, ok := v.(*counted)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	into.events = 0
	for b := whole.ReadOnlyData(); len(b) > 0; into.events++ {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
	}
	return nil
}

// countEvents watches all events, and reports the number of events in each response.
func countEvents(ctx context.Context, conn *client.Client, each func(events int)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, supervisorv1.SupervisorStateService_WatchEvents_FullMethodName,
		grpc.ForceCodecV2(countingCodec{encoding.GetCodecV2("proto")}))
	if err == nil {
		err = stream.SendMsg(&supervisorv1.WatchEventsRequest{MaxBatch: math.MaxInt32})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	for err == nil {
		var response counted
		if err = stream.RecvMsg(&response); err == nil {
			each(response.events)
		}
	}
	return err
}
