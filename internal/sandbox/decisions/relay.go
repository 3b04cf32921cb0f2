package decisions

import (
	"net"
	"time"
)

// Up passes on what comes from a connection, until one of the two ends.
func Up(conn net.Conn, send func([]byte) error) error {
	piece := make([]byte, 32<<10)
	for {
		n, err := conn.Read(piece)
		if n > 0 {
			if err := send(piece[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// Down passes on what is for a connection, until one of the two ends, or the connection takes nothing for the time
// that an answer has. It closes the connection.
func Down(conn net.Conn, receive func() ([]byte, error)) {
	defer conn.Close()
	for {
		piece, err := receive()
		if err != nil {
			return
		}
		_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := conn.Write(piece); err != nil {
			return
		}
	}
}
