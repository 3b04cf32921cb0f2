package prompt

import "time"

// awayTime is the interval at which the terminal is checked, because there is no signal when a job that was not stopped
// comes to the foreground.
const awayTime = 250 * time.Millisecond

// openBoard reads keys for the current question if this job is in the foreground. In the background it neither reads
// keys, which belong to another job, nor lets the process be stopped: the turn could not continue, and other clients
// can answer.
func (p *promptRun) openBoard() {
	k := &p.asker
	if !p.foreground() {
		k.away, k.reported = time.After(awayTime), false // reported after it is certain that the process does not end
		return
	}
	board, err := p.keyboard()
	if err != nil {
		p.printf("no keys can be read from the terminal: %v; answer with \"acphost approvals\", or press Ctrl-C", err)
		return
	}
	p.mu.Lock()
	p.board = board
	p.mu.Unlock()
	k.keys, k.away = board.Keys(), nil
	p.screen.ask(k.line())
}

// closeBoard releases the terminal.
func (p *promptRun) closeBoard() {
	k := &p.asker
	p.screen.ask("")
	p.closeKeyboard()
	k.keys, k.away = nil, nil
}

// lookForTerminal asks the open question again if this job is in the foreground now.
func (p *promptRun) lookForTerminal() {
	k := &p.asker
	if p.foreground() {
		p.askAgain()
		return
	}
	k.away = time.After(awayTime)
	if !k.reported {
		k.reported = true
		p.printf("this runs in the background: answer with \"acphost approvals\", or bring it to the foreground (\"fg\")")
	}
}

// askAgain shows the open question again, because other output separates it from the keys.
func (p *promptRun) askAgain() {
	k := &p.asker
	k.away = nil
	if k.current == nil {
		return
	}
	p.screen.print(p.r.Question(k.current) + k.dialog.intro())
	p.openBoard()
}

// suspended restores the terminal and stops the process, and continues when the process was continued.
func (p *promptRun) suspended() {
	p.closeBoard()
	p.expected = p.stop()
	p.resumed()
}

// continued handles SIGCONT if the process did not stop itself: the terminal's settings may have changed, and another
// job may be in the foreground.
func (p *promptRun) continued() {
	if p.expected {
		p.expected = false
		return
	}
	if p.asker.keys != nil || p.asker.away != nil {
		p.closeBoard()
		p.resumed()
	}
}

func (p *promptRun) resumed() {
	switch k := &p.asker; {
	case k.current == nil || k.sending:
	case p.foreground():
		p.askAgain()
	default:
		p.openBoard()
	}
}
