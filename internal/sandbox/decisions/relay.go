package decisions

import (
	"net"
	"time"
)

// Up forwards data from a connection to send until either fails.
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

// Down forwards data from receive to a connection until either fails, or the connection accepts no data for writeTimeout. It closes
// the connection.
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
