import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { httpSessions, type HttpSessions, type SendToClient, type SessionEnd } from './http-sessions.ts'
import { conformanceSuite } from './peers.ts'
import { Gateway, type Wire } from './run-mcp.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'
import { conformingServer } from './upstreams/conforming.ts'

/*
 * Runs MCP's own conformance suite on a server that is reached over HTTP, and on the gateway in front of that server.
 * The suite speaks HTTP only, so a bridge starts a gateway for each session of the suite.
 */

let service: ScriptedService
let direct: HttpSessions
let through: HttpSessions
beforeAll(async () => {
  service = await scriptedService(({ path }, socket) =>
    reply(socket, 200, path.endsWith('/authorize') ? allowed : { ok: true }),
  )
  direct = await httpSessions(conformingServer)
  through = await httpSessions(bridge)
})
afterAll(() => Promise.all([service.close(), direct.close(), through.close()]))

/** The name of the server in the gateway's tool and prompt names. */
const server = 'it'
const inside = (name: string): string => `${server}__${name}`
const outside = ({ name, ...rest }: Wire): Wire => ({ ...rest, name: name.replace(inside(''), '') })

/**
 * The gateway of the latest session. The suite never says that a session is over. A new session therefore ends the
 * gateway of the session before.
 */
let last: Gateway | undefined

/** A gateway for one session. Messages of the gateway are sent as part of the client's latest unanswered request. */
function bridge(send: SendToClient): SessionEnd {
  const gateway = new Gateway({
    servers: { [server]: { type: 'http', url: direct.url } },
    env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' },
  })
  void last?.close()
  last = gateway
  const open = new Map<string | number, string>()
  createInterface({ input: gateway.child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
    const message: Wire = JSON.parse(line)
    if (message.method !== undefined) return send(message, [...open.keys()].at(-1))
    open.delete(message.id)
    const { result } = message
    for (const kind of ['tools', 'prompts']) if (result?.[kind]) result[kind] = result[kind].map(outside)
    send(message)
  })
  return {
    take(message) {
      const { id, method, params } = message
      if (id !== undefined && method !== undefined) open.set(id, method)
      if (method === 'tools/call' || method === 'prompts/get') params.name = inside(params.name)
      if (params?.ref?.type === 'ref/prompt') params.ref.name = inside(params.ref.name)
      gateway.send(message)
    },
    end: () => void gateway.close(),
  }
}

/** The result of each check, by scenario and id. */
async function checks(url: string): Promise<Record<string, string>> {
  const folder = temporaryFolder()
  const words = [await conformanceSuite(), 'server', '--url', url, '--output-dir', folder]
  await new Promise((resolve) => {
    execFile(process.execPath, words, { cwd: folder }, resolve)
  })
  const found: Record<string, string> = {}
  for (const name of readdirSync(folder).toSorted()) {
    const scenario = name.replace(/-\d{4}-.*$/, '')
    for (const { id, status, errorMessage } of JSON.parse(
      readFileSync(join(folder, name, 'checks.json'), 'utf8'),
    ) as Wire[])
      found[`${scenario}: ${id}`] = errorMessage === undefined ? status : `${status}: ${errorMessage}`
  }
  return found
}

test('the gateway passes what the server behind it passes', async () => {
  const [ofServer, ofGateway] = [await checks(direct.url), await checks(through.url)]
  expect(new Set(Object.values(ofServer))).toEqual(new Set(['SUCCESS']))
  expect(Object.keys(ofServer).length).toBeGreaterThanOrEqual(40)
  expect(ofGateway).toEqual(ofServer)
})
