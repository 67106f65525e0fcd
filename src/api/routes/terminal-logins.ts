import { z } from 'zod'
import {
  approveTerminalLogin,
  denyTerminalLogin,
  readTerminalLogin,
} from '../../governance/people/terminal-logins.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { ok, tagged } from '../route.ts'
import { id, named, time } from '../schemas/common.ts'

const { route } = tagged('Terminal logins')

const login = named('TerminalLogin', {
  machine: z.string().describe('what the terminal says of itself'),
  address: z.string().describe('where its request came from'),
  created_at: time,
  expires_at: time,
  status: z.enum(['open', 'approved', 'denied']),
})
/** Not in the path, so that no log has it. */
export const terminalBody = named('TerminalRequest', {
  organization_id: z.string().optional(),
  code: z.string().min(1).max(100),
})
const approved = named('ApprovedTerminalLogin', { key_id: id, organization_id: id, expires_at: time })

const example = {
  machine: 'laptop',
  address: '192.0.2.7',
  created_at: '2026-11-23T09:00:00.000Z',
  expires_at: '2026-11-23T09:10:00.000Z',
} as const

const needs = { scope: 'api_keys:*', role: 'viewer', subject: 'own' } as const

export const terminalLoginRoutes = [
  route({
    key: 'POST /terminal-logins/look',
    needs,
    asks: true,
    summary: 'The terminal that waits with this code to be signed in',
    body: terminalBody,
    example: { body: { code: 'WDJB-MJHT' }, answers: { 200: { ...example, status: 'open' } } },
    responses: { 200: login },
    handle: async ({ context, caller, body }) => ok(await readTerminalLogin(context, caller, body.code)),
  }),
  route({
    key: 'POST /terminal-logins/approve',
    needs,
    audit: ['terminal_login.approved', 'api_key.created'],
    summary: 'Sign a terminal in: it gets a key of yours that ends in 30 days',
    description:
      'Compare the code with the one that the terminal shows, and say yes only to a login that you have begun yourself. The key has the scopes of your role, or those of your key.',
    body: terminalBody,
    example: {
      body: { code: 'WDJB-MJHT' },
      answers: {
        200: {
          key_id: 'key_01M82XD2FE36W9PYPF92CPJWPM',
          organization_id: 'org_01M82XD2FE36W9PYPF92CPJWPM',
          expires_at: '2026-12-23T09:01:00.000Z',
        },
      },
    },
    responses: { 200: approved },
    async handle({ context, caller, body, once }) {
      const key = await actOnce(once, () => approveTerminalLogin(context, caller, body.code, once))
      const { id: key_id, organization_id, expires_at } = key
      return ok({ key_id, organization_id, expires_at: expires_at ?? '' })
    },
  }),
  route({
    key: 'POST /terminal-logins/deny',
    needs,
    audit: ['terminal_login.denied'],
    summary: 'Refuse a terminal that waits to be signed in',
    body: terminalBody,
    example: { body: { code: 'WDJB-MJHT' }, answers: { 200: { ...example, status: 'denied' } } },
    responses: { 200: login },
    handle: async ({ context, caller, body, once }) =>
      ok(await actOnce(once, () => denyTerminalLogin(context, caller, body.code, once))),
  }),
]
