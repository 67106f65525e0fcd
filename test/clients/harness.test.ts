import { describe, expect } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { HookCommand, Place } from './client.ts'
import { asksItsUser, clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { sideBySide } from './side-by-side.ts'
import { runClient, startClient } from './run-client.ts'
import { until } from '../stack/until.ts'

/*
 * Checks that the clients run offline, that their hooks see each call, and that a hook's refusal is respected. The
 * hooks here are one-line commands, so that our own hook cannot be the cause of a failure.
 */

const reason = 'blocked by rule `no-touch`'
const refusal = JSON.stringify({
  ...{ decision: 'block', reason, permissionDecision: 'deny', permissionDecisionReason: reason },
  hookSpecificOutput: {
    ...{ hookEventName: 'PreToolUse', permissionDecision: 'deny', permissionDecisionReason: reason },
  },
})

/**
 * A hook that appends its input to a file in the working folder, one line per event. Each line is written with one
 * write, because a subagent's event may come at the same time.
 */
const note = (file: string): HookCommand => ({
  command: `line=$(tr -d '\\n'); printf '%s\\n' "$line" >> ${file}`,
  timeout: 20,
})
interface Noted {
  readonly session_id?: string
  readonly tool_input?: object
}
/** Parses the noted events. One client names two fields in camelCase; they get the names that the other clients use. */
const noted = (text = ''): Noted[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const { sessionId, toolArgs, ...event } = JSON.parse(line) as Noted & Record<string, unknown>
      return { session_id: sessionId, tool_input: toolArgs, ...event } as Noted
    })

/** The refusal as a program file, so that no shell interprets its text. */
function refuse({ root }: Place): HookCommand {
  const file = join(root, 'refuse')
  writeFileSync(
    file,
    `#!/bin/sh\ncat > /dev/null\ncat <<'END'\n${refusal}\nEND\necho '${reason}' >&2\nexit 2\n`,
    {
      mode: 0o755,
    },
  )
  return { command: file, timeout: 20 }
}

const test = sideBySide(3, async () => {
  await ensureClients()
})

describe.each(clients)('%s', (_name, client) => {
  test('runs a call that no hook sees', async () => {
    const run = await runClient(client, { script: [[client.shell('echo yes > RAN; echo so it is')]] })
    expect(run).toMatchObject({ exit: 0, files: { RAN: 'yes\n' } })
    expect(run.results).toHaveLength(1)
    expect(run.results[0]?.text).toContain('so it is')
  })

  test('calls hooks before and after the call, and at the end of the session', async () => {
    const run = await runClient(client, {
      script: [[client.shell('echo one > ONE')], [client.shell('echo two > TWO')]],
      setup: (place) => client.hook(place, { pre: note('pre'), post: note('post'), end: note('end') }),
    })
    expect(run).toMatchObject({ exit: 0, files: { ONE: 'one\n', TWO: 'two\n' } })
    for (const event of ['pre', 'post']) {
      expect(noted(run.files[event])).toMatchObject([
        { tool_input: { command: 'echo one > ONE' } },
        { tool_input: { command: 'echo two > TWO' } },
      ])
    }
    const [pre] = noted(run.files['pre'])
    expect(pre?.session_id).toMatch(/^[\w-]{8,}$/)
    expect(noted(run.files['end'])).toMatchObject([{ session_id: pre?.session_id }])
  })

  test('refuses a call that a hook refuses, and the model reads the reason', async () => {
    const run = await runClient(client, {
      script: [[client.shell('touch RAN')]],
      setup: (place) => client.hook(place, { pre: refuse(place) }),
    })
    expect(run).toMatchObject({ exit: 0, files: {} })
    expect(run.results).toHaveLength(1)
    expect(run.results[0]?.text).toContain(reason)
    expect(run.denials ?? 1).toBe(1)
  })

  test('still asks its own user after a hook without an answer', async () => {
    const run = await runClient(client, {
      script: [[client.shell('touch RAN')]],
      setup: (place) => client.hook(place, { pre: note('pre') }),
      trusted: false,
    })
    expect(run.exit).toBe(0)
    expect(run.files['RAN']).toBeUndefined()
    expect(run.results[0]?.text).toMatch(asksItsUser)
  })

  test('asks a hook about every parallel call', async () => {
    const names = ['A', 'B', 'C']
    const run = await runClient(client, {
      script: [names.map((name) => client.shell(`echo ${name} > ${name}`))],
      setup: ({ root, work, ...place }) => {
        // One file per call, because calls may run at once.
        const command = `f=$(mktemp ${root}/seen-XXXXXX); cat > $f; cp $f ${work}`
        client.hook({ root, work, ...place }, { pre: { command, timeout: 20 } })
      },
    })
    const seen = Object.entries(run.files).filter(([name]) => name.startsWith('seen-'))
    const commands = seen.map(([, text]) => noted(text)[0]?.tool_input)
    expect(commands).toHaveLength(3)
    expect(commands).toEqual(
      expect.arrayContaining(
        names.map((name) => expect.objectContaining({ command: `echo ${name} > ${name}` })),
      ),
    )
    expect(run).toMatchObject({ exit: 0, files: { A: 'A\n', B: 'B\n', C: 'C\n' } })
    expect(run.results).toHaveLength(3)
  })

  test('asks a hook about a subagent’s calls', async () => {
    const run = await runClient(client, {
      script: { main: client.delegate('part'), part: [[client.shell('echo part > PART')]] },
      setup: (place) => client.hook(place, { pre: note('pre') }),
    })
    expect(run).toMatchObject({ exit: 0, files: { PART: 'part\n' } })
    const events = noted(run.files['pre'])
    expect(new Set(events.map(({ session_id: id }) => id)).size).toBe(client.partsApart === true ? 2 : 1)
    expect(events.map(({ tool_input: input }) => input)).toContainEqual(
      expect.objectContaining({ command: 'echo part > PART' }),
    )
    expect(run.results.map(({ script }) => script)).toContain('part')
  })

  test('can be ended during a hook', async () => {
    const started = await startClient(client, {
      script: [[client.shell('touch RAN')]],
      setup: (place) =>
        client.hook(place, { pre: { command: 'cat > /dev/null; touch asked; sleep 600', timeout: 900 } }),
    })
    await until('the hook waits', () => started.has('asked'))
    started.signal('SIGTERM')
    const run = await started.ended
    expect(run.files['RAN']).toBeUndefined()
  })
})
