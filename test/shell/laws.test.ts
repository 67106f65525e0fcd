import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { classifyCommand } from '../../src/shell/classify.ts'
import { mutated, quoted, short } from './mutations.ts'
import { rowsOf, weight } from './rows.ts'

/** `SHELL_FUZZ=1000000` runs for a whole night. */
const runs = Number(process.env['SHELL_FUZZ'] ?? 20_000)
const of = (command: string): number => weight[classifyCommand(command).kind]

describe('laws of reading shell commands', () => {
  test(`any text gets one of three answers (${runs} texts)`, () => {
    fc.assert(
      fc.property(mutated, (command) => {
        const { kind, because } = classifyCommand(command)
        expect(Object.keys(weight)).toContain(kind)
        expect(because.length).toBeGreaterThan(5)
      }),
      { numRuns: runs },
    )
  })

  test('an additional command never lowers the class', () => {
    // After a backslash the added text is a part of the last word, and after the beginning of a heredoc it is the
    // heredoc's text.
    const whole = mutated.filter((command) => !command.endsWith('\\') && !command.includes('<<'))
    fc.assert(
      fc.property(whole, (command) => {
        expect(of(`${command}; curl x`)).toBeGreaterThanOrEqual(of(command))
        expect(of(`${command}\ncurl x`)).toBeGreaterThanOrEqual(of(command))
        expect(of(`curl x\n${command}`)).toBe(weight.egress)
      }),
      { numRuns: runs / 10 },
    )
  })

  test('a wrapper that only runs the command never lowers the class', () => {
    fc.assert(
      fc.property(fc.constantFrom(...short), (command) => {
        const kind = of(command)
        for (const wrapped of [
          `bash -c ${quoted(command)}`,
          `eval ${quoted(command)}`,
          `(${command}\n)`,
          `{ ${command}\n}`,
          `if true; then ${command}\nfi`,
          `x=$(${command}\n)`,
          `f() { ${command}\n}`,
          `trap ${quoted(command)} EXIT`,
        ])
          expect([wrapped, of(wrapped)]).toEqual([wrapped, Math.max(kind, of(wrapped))])
      }),
      { numRuns: Math.min(runs / 20, 5_000) },
    )
  })

  const simple = short.filter((command) => /^[a-z][a-z0-9._-]*( [^;&|<>()`'"\\\n]+)*$/.test(command))
  const keywords =
    /^(if|for|while|until|case|select|time|coproc|function|repeat|export|declare|local|readonly|typeset|alias)\b/
  const plain = simple.filter((command) => !keywords.test(command))

  test('quotes around the name of the program change nothing', () => {
    expect(plain.length).toBeGreaterThan(200)
    for (const command of plain) {
      const [name = '', ...rest] = command.split(' ')
      for (const other of [
        `'${name}'`,
        `"${name}"`,
        `\\${name}`,
        `${name.slice(0, 1)}''${name.slice(1)}`,
        `$'${name}'`,
      ]) {
        const changed = [other, ...rest].join(' ')
        expect([changed, of(changed)]).toEqual([changed, of(command)])
      }
    }
  })

  test('wrappers around a plain command never lower the class', () => {
    const wrappers =
      `env|env A=1|sudo|sudo -u bob|timeout 5|nohup|nice -n 5|setsid|stdbuf -oL|command|exec|time -p|xargs|flock /l|
      strace -f|ionice -c 3|unshare -r|chrt -f 1|doas|find . -exec`.split('|')
    for (const command of plain) {
      for (const wrapper of wrappers) {
        const wrapped = `${wrapper.trim()} ${command}`
        expect([wrapped, of(wrapped)]).toEqual([wrapped, Math.max(of(command), of(wrapped))])
      }
    }
  })

  test('the reason repeats nothing of the command except the name of a program', () => {
    const secret = 'zq9secret'
    for (const { command } of [...rowsOf('dev'), ...rowsOf('corpus')]) {
      const told = command.replaceAll(/(?<=[ '"=/@:-])[a-z]{1,3}(?=$|[ '"/.])/g, secret)
      expect([told, classifyCommand(told).because]).not.toEqual([told, expect.stringContaining(secret)])
    }
  })
})
