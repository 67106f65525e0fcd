import { spawn } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

interface Listed {
  readonly key: string
  readonly currentHash: string
}

/** Trusts all hooks of a home, as a person does in Codex's `/hooks`; `program` starts Codex. */
export async function trustHooks(program: readonly string[], home: string): Promise<void> {
  const states = (await hooksOf(program, home)).map(
    ({ key, currentHash }) => `[hooks.state.${JSON.stringify(key)}]\ntrusted_hash = "${currentHash}"\n`,
  )
  appendFileSync(join(home, '.codex', 'config.toml'), states.join(''))
}

async function hooksOf([name = '', ...first]: readonly string[], home: string): Promise<readonly Listed[]> {
  const env = { PATH: process.env['PATH'], HOME: home }
  const child = spawn(name, [...first, 'app-server'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
  const ended = new Promise((resolve) => child.once('close', resolve))
  const send = (message: object): boolean => child.stdin.write(`${JSON.stringify(message)}\n`)
  send({ id: 1, method: 'initialize', params: { clientInfo: { name: 'test', version: '0' } } })
  send({ method: 'initialized' })
  send({ id: 2, method: 'hooks/list', params: { cwds: [home] } })
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const answer = JSON.parse(line) as { id?: number; result?: { data: { hooks: Listed[] }[] } }
      if (answer.id === 2) return answer.result?.data.flatMap(({ hooks }) => hooks) ?? []
    }
    throw new Error('Codex did not list its hooks')
  } finally {
    child.kill()
    await ended
  }
}
