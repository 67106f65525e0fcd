import type { BetterAuthPlugin } from 'better-auth'
import { createAuthEndpoint } from 'better-auth/api'
import { z } from 'zod'
import { terminalPath } from '../contract/pages.ts'
import type { Context } from '../governance/context.ts'
import {
  beginTerminalLogin,
  codeMinutes,
  pollSeconds,
  shownCode,
  terminalLoginState,
} from '../governance/people/terminal-logins.ts'
import { nameField } from '../policy/text.ts'
import { publicBase } from '../shared/config.ts'
import { told } from './provider-sign-in.ts'

/*
 * What a terminal asks that nobody has signed in yet, in the words of RFC 8628. These are endpoints of the sign-in
 * library: so they have its limits for each client address. What a person decides is a route (routes/terminal-logins.ts).
 */

export const terminalBegin = '/terminal/begin'
export const terminalPoll = '/terminal/poll'

export function terminalLogins(context: Context, addressHeader: string) {
  return {
    id: 'terminal-logins',
    endpoints: {
      beginTerminalLogin: createAuthEndpoint(
        terminalBegin,
        { method: 'POST', body: z.object({ machine: nameField(100) }) },
        async (ctx) => {
          const address = ctx.headers?.get(addressHeader) || 'unknown'
          const { secret, code } = await told(() =>
            beginTerminalLogin(context, { machine: ctx.body.machine, address }),
          )
          const page = `${publicBase(context.config)}${terminalPath}`
          return ctx.json({
            device_code: secret,
            user_code: shownCode(code),
            verification_uri: page,
            verification_uri_complete: `${page}?code=${shownCode(code)}`,
            expires_in: codeMinutes * 60,
            interval: pollSeconds,
          })
        },
      ),
      pollTerminalLogin: createAuthEndpoint(
        terminalPoll,
        { method: 'POST', body: z.object({ device_code: z.string().max(200) }) },
        async (ctx) => ctx.json({ status: await terminalLoginState(context, ctx.body.device_code) }),
      ),
    },
  } satisfies BetterAuthPlugin
}
