"""python3 -m unittest: the policy's verdicts, without acphost."""

import os
import tempfile
import unittest

import files
import handler
import policy

Request = handler.message('acphost.permission.v1.DecideRequest')
verdicts = {policy.ALLOW: 'allow', policy.ASK: 'ask', policy.DENY: 'deny'}


def file(path, **more):
    return {'path': path, 'resolved_path': path, 'access': policy.READ, 'inside_roots': True, **more}


def sub(line, **more):
    argv = line.split()
    return {'argv': argv, 'program': {'path': '/usr/bin/' + argv[0]}, 'facts': {'known': True, 'files': [file('/w/a')]}, **more}


def run(*subs, **more):
    return {'kind': 'terminal.create', 'command': {'sub_commands': subs, **more}}


class Decide(unittest.TestCase):
    def check(self, action, verdict, rule):
        got = policy.decide(Request(action=action))
        self.assertEqual((verdicts[got.verdict], got.rule), (verdict, rule))

    def test_reads_and_writes(self):
        self.check({'kind': 'fs.read', 'paths': [file('/w/a.js')]}, 'allow', 'read-inside-roots')
        self.check({'kind': 'fs.read', 'paths': [file('/etc/hosts', inside_roots=False)]}, 'ask', 'else')
        self.check({'kind': 'fs.read', 'paths': [file('/w/x', resolved_path='/home/me/.ssh/id_rsa')]}, 'deny', 'secrets')
        self.check({'kind': 'fs.read', 'paths': [file('/w/SERVER.PEM')]}, 'deny', 'secrets')
        self.check({'kind': 'fs.write', 'paths': [file('/w/a.js')]}, 'ask', 'else')
        self.check({'kind': 'fs.read', 'paths': [file('/w/a')], 'unparsed': 'x'}, 'ask', 'unclear')
        self.check({'kind': 'tool.read'}, 'ask', 'else')
        self.check({}, 'ask', 'else')

    def test_commands(self):
        self.check(run(sub('cat a')), 'allow', 'looks-inside-roots')
        self.check(run(sub('cat a'), sub('make', facts={'known': True, 'runs_code': True})), 'ask', 'else')
        self.check(run(sub('cat .env', facts={'known': True, 'files': [file('/w/.env')]})), 'deny', 'secrets')
        self.check(run(sub('cat a', redirections=[{'path': '/w/.env'}])), 'deny', 'secrets')
        self.check(run(sub('cat a', facts={'known': True, 'files': [file('/etc/passwd', inside_roots=False)]})), 'ask', 'else')
        self.check(run(sub('cat a'), env=['LD_PRELOAD=x']), 'ask', 'else')
        self.check(run(sub('cat a'), unparsed='a quote is open'), 'ask', 'unclear')
        for more in ({'facts': {}}, {'program': None}, {'program': {'path': '/w/cat', 'inside_roots': True}}, {'cwd': '/tmp'},
                     {'dynamic': True}, {'assignments': ['A=1']}, {'wrappers': ['sudo']}):
            self.check(run(sub('cat a', **more)), 'ask', 'else')
        self.check(run(), 'ask', 'else')

    def test_git(self):
        own = {'git_dir': '/w/.git', 'at_root': True}
        self.check(run(sub('git status', repository=own)), 'allow', 'looks-inside-roots')
        self.check(run(sub('git status')), 'ask', 'else')
        self.check(run(sub('git status', repository={**own, 'at_root': False})), 'ask', 'else')
        self.check(run(sub('git status', repository={**own, 'suspects': ['core.fsmonitor']})), 'ask', 'else')


class Files(unittest.TestCase):
    def test_open_rejects_swapped_link(self):
        with tempfile.TemporaryDirectory() as top:
            for folder in ('ws/sub', 'out'):
                os.makedirs(os.path.join(top, folder))
                with open(os.path.join(top, folder, 'f'), 'w', encoding='utf-8') as f:
                    f.write(folder)
            request = handler.message('acphost.fs.v1.ResolveRequest')(context={'roots': [{'path': top + '/ws'}]}, path=top + '/ws/sub/f')
            at = files.resolve(request)
            os.rename(top + '/ws/sub', top + '/ws/away')
            os.symlink('../out', top + '/ws/sub')
            with self.assertRaises(OSError):
                files.Folder(at)
            at.root = top + '/out'  # as if the root itself had been swapped
            with self.assertRaises(OSError):
                files.Folder(at)

    def test_gits_recognizes_files_of_repositories(self):
        with tempfile.TemporaryDirectory() as top:
            self.assertFalse(files.gits(top + '/objects/x'))
            os.mkdir(top + '/refs')
            self.assertFalse(files.gits(top + '/objects/x'))
            open(top + '/HEAD', 'w', encoding='utf-8').close()
            for name in ('objects/x', '.git/config', 'a/.GIT/hooks/pre-commit', '.g\u200cit/config', '.git:$DATA', 'GIT~1. /x'):
                self.assertTrue(files.gits(f'{top}/{name}'), name)

    def test_configure_rejects_invalid_settings(self):
        for bad in ({'max_byte': 1}, {'max_bytes': 0}, {'max_bytes': 1.5}, {'max_bytes': True}, {'max_bytes': '1'}):
            with self.assertRaises(ValueError):
                files.configure(bad, None, True)


if __name__ == '__main__':
    unittest.main()
