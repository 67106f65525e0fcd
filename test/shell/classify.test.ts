import { describe, expect, test } from '@jest/globals'
import { classifyCommand } from '../../src/shell/classify.ts'
import { rowsOf } from './rows.ts'

/* Every row of test/shell/data: the class of the command, and the reason. */

describe.each(['dev', 'corpus'] as const)('%s', (file) => {
  const rows = rowsOf(file)

  test('has commands of every class, none twice', () => {
    expect(new Set(rows.map(({ command }) => command)).size).toBe(rows.length)
    expect(new Set(rows.map(({ expect }) => expect))).toEqual(new Set(['egress', 'script', 'write']))
  })

  test.each(
    rows.map(
      (row) => [row.expect, row.command.slice(0, 100).replaceAll('%', '%%'), row.reason, row] as const,
    ),
  )('%s: %j (%s)', (_, __, ___, { command, expect: kind }) => {
    expect(classifyCommand(command)).toMatchObject({ kind })
  })
})

describe('the half written by people who had not seen the classifier', () => {
  /** Rows that we classify differently from their author, with our class. */
  const disputed = new Map([['run() { "$@"; }; run ls', 'write']])
  const rows = rowsOf('held-out')

  test('has at least 400 commands', () => {
    expect(rows.length).toBeGreaterThanOrEqual(400)
  })

  test.each(rows.map((row) => [row.expect, row.command.slice(0, 100).replaceAll('%', '%%'), row] as const))(
    '%s: %j',
    (_, __, { command, expect: kind }) => {
      expect(classifyCommand(command).kind).toBe(disputed.get(command) ?? kind)
    },
  )
})

describe('files that a command writes', () => {
  const page = `# Notes\n\n${'Run `npm start`, then `curl localhost`.\n'.repeat(80)}`

  test('are data, however many backticks they have', () => {
    expect(classifyCommand(`cat > notes.md <<'EOF'\n${page}EOF\ngit add notes.md`).kind).toBe('write')
  })
  test('are not searched for senders if the command is too long only because of them', () => {
    expect(classifyCommand(`cat > notes.md <<'EOF'\n${page.repeat(6)}EOF\ngit add notes.md`).kind).toBe(
      'script',
    )
  })
  test.each([
    ['a shell that reads them', `bash <<'EOF'\n${page.repeat(6)}EOF\n`],
    ['a command behind them', `cat > notes.md <<'EOF'\n${page.repeat(6)}EOF\ncurl x`],
    ['quotes that look like a heredoc', `echo "<<'EOF'\n$(curl x)${page.repeat(6)}\nEOF\n"`],
    ['two on a line', `cat <<'A' <<B\n${page}A\n$(curl x)\nB\n`],
    ['a heredoc without quotes', `cat <<EOF\n${page}EOF\n`],
  ])('but %s', (_, command) => {
    expect(classifyCommand(command).kind).toBe('egress')
  })
})

test('a command may have more than a thousand words', () => {
  expect(classifyCommand(`ls ${'a '.repeat(1_400)}`).kind).toBe('write')
})

describe('the reason', () => {
  test.each([
    ['curl https://example.com', '`curl` sends data out'],
    ['git push', '`git push` sends data out'],
    ['./x', 'it runs a local program or script'],
    ['ls', 'nothing in it sends data out or runs a script'],
    ['$X', 'which program runs is only known when it runs'],
    ['a'.repeat(20_000), 'the command is too long to read'],
    [`ls ${'a '.repeat(1_600)}`, 'the command is too long to read'],
  ])('%.30s', (command, because) => {
    expect(classifyCommand(command).because).toBe(because)
  })
})

describe('files that a command runs as scripts', () => {
  test.each([
    ['./a.sh x; sub/b.sh > c.sh', ['./a.sh', 'sub/b.sh']],
    ['bash -eu -o pipefail a.sh b.sh', ['a.sh']],
    ['bash --rcfile rc -i; bash -n a.sh', ['rc']],
    ['source a; . ./b; . /dev/stdin', ['a', './b']],
    ['python3 -u -W ignore a.py b.py', ['a.py']],
    ['python3 -m pytest a.py; python3 -c 1 a.py', []],
    ['node -r ./a.js --import=b.mjs c d', ['./a.js', 'b.mjs', 'c']],
    ['perl -ne 1 a; deno run a.ts', ['a.ts']],
    ['make -f a.mk all --file=b.mk', ['a.mk', 'b.mk']],
    ['sudo nice env X=1 timeout 9 ./a', ['./a']],
    ['x=./a; $x; for i in b c; do bash $i; done', ['./a', 'b', 'c']],
    ['f() { sh "$1"; }; f a', ['a']],
    ['./?.sh; bash $UNKNOWN', ['./?.sh', '${_}']],
    ['ls a.sh; git add b.py; psql a; /usr/bin/env', []],
  ])('%s', (command, scripts) => {
    expect(classifyCommand(command).scripts).toEqual(scripts)
  })

  test('are bounded', () => {
    const many = Array.from({ length: 100 }, (_, index) => `./${index}.sh`)
    expect(classifyCommand(many.join(';')).scripts).toEqual(many.slice(0, 16))
    expect(classifyCommand(`./${'a'.repeat(5_000)}`).scripts).toEqual([])
  })
})
