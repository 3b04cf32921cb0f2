package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

// play has a supervisor that is made up listen on a socket, so that the examples run anywhere.
func play() (socket string, stop func()) {
	dir, err := os.MkdirTemp("", "acphost-example-*")
	if err != nil {
		log.Fatal(err)
	}
	s := &supervisor{output: []*supervisorv1.WatchOutputResponse{{Data: []byte("ok\n")}, {Ended: true}}}
	s.turn = func(send func(*supervisorv1.Event)) error {
		send(agentMessage("I would like to build."))
		send(asks("claude-1/7"))
		<-s.answered
		send(agentMessage("It is built."))
		send(ends(&supervisorv1.TurnEnded{StopReason: "end_turn"}))
		return nil
	}
	socket = filepath.Join(dir, "admin.sock")
	stopServer, err := s.listen(socket)
	if err != nil {
		log.Fatal(err)
	}
	return socket, func() {
		stopServer()
		_ = os.RemoveAll(dir)
	}
}

// Find the running supervisor, and ask it how it is. Anything else that an agent has put there is not asked.
func ExampleFind() {
	socket, stop := play()
	defer stop()

	// In a program of yours: client.Find(ctx, client.Dirs(os.Getenv))
	for _, found := range client.Find(context.Background(), nil, socket) {
		if doubt, ok := errors.AsType[*client.DoubtError](found.Err); ok {
			log.Print(doubt)
			continue
		}
		c, err := found.Dial()
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		fmt.Println("process", found.PID)
	}
	// Output: process 4711
}

// Start an agent, prompt it, and answer what it asks on the way.
func ExampleClient_Prompt() {
	socket, stop := play()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.DialSocket(socket)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	started, err := c.Agents.StartAgent(ctx, &supervisorv1.StartAgentRequest{Preset: "claude", Cwd: "/work"})
	if err != nil {
		log.Fatal(err)
	}
	session, _, err := c.OpenSession(ctx, started.GetAgent(), "", "/work", "", false)
	if err != nil {
		log.Fatal(err)
	}
	turn, err := c.Prompt(ctx, &supervisorv1.PromptRequest{
		AgentId: session.GetAgentId(), SessionId: session.GetSessionId(), CancelOnDisconnect: true,
		Prompt: []*supervisorv1.ContentBlock{client.Text("Build it.")},
	})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range turn.Events() {
		if err != nil {
			log.Fatal(err)
		}
		if text := e.GetAgentMessage().GetContent().GetText().GetText(); text != "" {
			fmt.Println(text)
		}
		if asked := e.GetQuestionAsked(); asked != nil {
			answer, err := c.Answer(ctx, asked.GetId(), "builder", client.Choose("allow_once"))
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(asked.GetPermission().GetTitle()+":", client.HowEnded(answer))
		}
	}
	end, err := turn.End()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(end.GetStopReason())
	// Output:
	// I would like to build.
	// Run make: it was allowed by builder
	// It is built.
	// end_turn
}

// Follow what a command writes.
func ExampleClient_WatchOutput() {
	socket, stop := play()
	defer stop()
	c, err := client.DialSocket(socket)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	pieces, err := c.WatchOutput(context.Background(), "acphost-1f", 0)
	if err != nil {
		log.Fatal(err)
	}
	for piece, err := range pieces {
		if err != nil {
			log.Fatal(err)
		}
		_, _ = os.Stdout.Write(piece.GetData())
	}
	// Output: ok
}
