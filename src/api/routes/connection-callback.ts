import type { Request } from 'express'
import { z } from 'zod'
import { finishAuthorization } from '../../governance/connections/authorize.ts'
import type { ApiError } from '../errors.ts'
import { escape, htmlPage, sendPage } from '../html-page.ts'
import { streamRoute } from '../route.ts'

const path = '/connections/callback/{integration}'

/** True if a browser has opened the callback address. A browser gets an error as a page, and not as JSON. */
export const showsPage = (request: Request, route: unknown): boolean =>
  route === path && request.accepts(['json', 'html']) === 'html'

/** The page for a person whose authorization did not become a connection. */
export function refusalPage(error: ApiError): string {
  const words =
    error.code === 'unauthenticated'
      ? '<p>You are not signed in to Countersign in this browser. <a href="/console/sign-in">Sign in</a> as the person who began, ' +
        'and then load this page again.</p>'
      : `<p>${escape(error.message)}</p>`
  return htmlPage('The service is not connected', words)
}

/**
 * Parameters that an authorization server adds to the callback address. The server may add other parameters too. These
 * are ignored.
 */
const text = z.string().max(8192).optional()
const answer = z.looseObject({
  state: text,
  code: text.describe('Exchanged for the tokens of the connection.'),
  iss: text.describe('Must be the server that was asked.'),
  error: text.describe('Why there is no code.'),
})

export const getCallback = streamRoute({
  key: `GET ${path}`,
  summary: 'Where an authorization server sends the browser back to',
  description:
    'Ends what `POST /tools/{name}/connect` began without a credential, for the same person only and once. The answer is a page for this person.',
  tag: 'Connections',
  contentType: 'text/html',
  query: answer,
  responses: { 200: null },
  async stream({ context, caller, params, query, signal }, _request, response) {
    const given = new URLSearchParams()
    for (const [name, value] of Object.entries(query)) if (typeof value === 'string') given.set(name, value)
    const finished = await finishAuthorization(context, caller, params.integration, given, signal)
    const page =
      finished.kind === 'connected'
        ? htmlPage(
            `${finished.title} is connected`,
            `<p>The connection <code>${escape(finished.connection.name)}</code> is ready. Its calls go to <code>${escape(finished.connection.destination)}</code>. You can close this page.</p>`,
          )
        : htmlPage(
            `${finished.title} is not connected`,
            `<p>The authorization was refused (<code>${escape(finished.code)}</code>). To try again, begin again.</p>`,
          )
    sendPage(response, page)
  },
})
