package prompt

import "time"

// awayTime is how often it is looked whether the terminal is this job's again: no signal tells that of a job that was not
// stopped.
const awayTime = 250 * time.Millisecond

// openBoard reads keys for the question that is asked, if the terminal is this job's. In the background it neither takes
// keys, which are meant for others, nor does it have the process stopped for wanting them: the turn could not go on, and
// others can answer.
func (p *promptRun) openBoard() {
	k := &p.asker
	if !p.foreground() {
		k.away, k.said = time.After(awayTime), false // told once it is sure that this is not the end
		return
	}
	board, err := p.keyboard()
	if err != nil {
		p.say("no keys can be read from the terminal: %v; answer with \"acphost approvals\", or press Ctrl-C", err)
		return
	}
	p.mu.Lock()
	p.board = board
	p.mu.Unlock()
	k.keys, k.away = board.Keys(), nil
	p.screen.ask(k.line())
}

// closeBoard gives the terminal back.
func (p *promptRun) closeBoard() {
	k := &p.asker
	p.screen.ask("")
	p.giveBack()
	k.keys, k.away = nil, nil
}

// lookForTerminal asks again what waits if the terminal is this job's by now.
func (p *promptRun) lookForTerminal() {
	k := &p.asker
	if p.foreground() {
		p.askAgain()
		return
	}
	k.away = time.After(awayTime)
	if !k.said {
		k.said = true
		p.say("this runs in the background: answer with \"acphost approvals\", or bring it to the foreground (\"fg\")")
	}
}

// askAgain shows the question that waits once more: what others have printed stands between.
func (p *promptRun) askAgain() {
	k := &p.asker
	k.away = nil
	if k.current == nil {
		return
	}
	p.screen.print(p.r.Question(k.current) + k.dialog.intro())
	p.openBoard()
}

// suspended stops the process with the terminal as it was, and goes on when it does.
func (p *promptRun) suspended() {
	p.closeBoard()
	p.expected = p.stop()
	p.resumed()
}

// continued is news that the process goes on, though it did not stop by itself: the terminal may be set otherwise, and may
// be another job's.
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
