import express, { type Request, type Response, type Router } from 'express'
import type { Documents } from '../../console/documents.ts'
import { createLayouts, type Layouts } from '../../console/graph.ts'
import { files, pages, type PageRoute } from '../../console/pages/index.ts'
import { keptPage, problemPage, switchedPage } from '../../console/pages/plain.tsx'
import { ownPlace, type PersonsVisit, type Shown } from '../../console/visit.ts'
import type { Context } from '../../governance/context.ts'
import { publicBase } from '../../shared/config.ts'
import { countRequest, goneSignal } from '../dispatch.ts'
import { ApiError } from '../errors.ts'
import type { Mounted } from '../route.ts'
import { consoleAssets, type Assets } from './assets.ts'
import { createDocuments } from './documents.ts'
import {
  asPage,
  consoleHeaders,
  sendTo,
  show,
  openPages,
  formToken,
  queryOf,
  isMultipart,
  readFields,
  readFormWithFile,
  requireOwnPage,
  hasToken,
  requireToken,
  shownBy,
  type SentForm,
} from './show.ts'
import {
  accountPages,
  providerPages,
  signInPages,
  invitationPages,
  ownSessionPages,
  secondFactorPages,
} from './accounts.ts'
import { apiOf, personOf, renewed, signedIn, type Signed } from './visits.ts'

/**
 * The console: pages rendered by the server (src/console), which read and change data only through the routes of the
 * public API (docs/decisions/0114-the-console-is-rendered-by-the-server.md).
 */
export function consoleRouter(context: Context, services: Mounted): Router {
  const router = express.Router({ caseSensitive: true, strict: true })
  const assets = consoleAssets()
  router.use(assets.router)
  router.use('/console', consoleHeaders)
  const open = openPages(router, { context, services, assets })
  for (const add of [
    signInPages,
    providerPages,
    accountPages,
    secondFactorPages,
    ownSessionPages,
    invitationPages,
  ])
    add(open)
  const [layouts, documents] = [createLayouts(), createDocuments()]
  for (const page of [...pages, ...files])
    mount(router, page, { context, services, assets, layouts, documents })
  router.get('/console/*splat', (request, response) => {
    const missing = { status: 404, code: 'not_found', message: '' }
    show({ request, response, assets }, problemPage(missing, request.originalUrl), null)
  })
  return router
}

const otherSession = {
  status: 403,
  code: 'unauthenticated',
  message: 'you have signed in anew since this page was opened, so nothing was done: send it once more',
}

interface Parts {
  readonly context: Context
  readonly services: Mounted
  readonly assets: Assets
  readonly layouts: Layouts
  readonly documents: Documents
}

function mount(router: Router, page: PageRoute, parts: Parts): void {
  const { context, services, assets } = parts
  router.get(
    page.path,
    asPage(page.path, assets, (request, response) =>
      answer(page, parts, { request, response }, () => Promise.resolve(null)),
    ),
  )
  if (page.post === undefined) return
  router.post(
    page.path,
    asPage(page.path, assets, async (request, response) => {
      const asked = { request, response }
      requireOwnPage(context.config, request)
      // Only a person who is signed in, and within the limit of requests, sends more than a small form.
      if (page.takesFile === true && isMultipart(request))
        return answer(page, parts, asked, ({ identity }) =>
          readFormWithFile(context, request, {
            holderId: identity.charged.holderId,
            signal: goneSignal(response, services),
          }),
        )
      if (page.keeps !== undefined)
        return answer(page, parts, asked, async () => formOf(await readFields(request, page.keeps?.bytes)))
      const form = await readFields(request)
      return answer(page, parts, asked, () => Promise.resolve(formOf(form)))
    }),
  )
}

const formOf = (form: URLSearchParams): SentForm => ({ form, file: null, release: () => {} })

/** What a stranger sends is shown only to the stranger. */
async function showKept({ assets }: Parts, { request, response }: Asked, bytes: number): Promise<void> {
  const form = await readFields(request, bytes)
  show({ request, response, assets }, keptPage(request.originalUrl, form), null)
}

interface Asked {
  readonly request: Request
  readonly response: Response
}

const hostOf = (address: string | null): string | null => (address === null ? null : new URL(address).host)

async function answer(
  page: PageRoute,
  parts: Parts,
  { request, response }: Asked,
  read: (signed: Signed) => Promise<SentForm | null>,
): Promise<void> {
  const { context, services, assets, layouts, documents } = parts
  const signed = await signedIn(context, services, request)
  if (signed === null) {
    if (page.keeps !== undefined && request.method === 'POST')
      return showKept(parts, { request, response }, page.keeps.bytes)
    sendTo(response, `/console/sign-in?return=${encodeURIComponent(ownPlace(request.originalUrl))}`)
    return
  }
  await countRequest(context, response, signed.identity.charged, 'requests')
  const sent = await read(signed)
  try {
    if (sent !== null && page.keeps === undefined) requireToken(context.config, signed.sessionId, sent.form)
    if (sent === null) await renewed(services, request, response, signed)
    const api = apiOf(context, services, { request, response, signed, file: sent?.file ?? null })
    const person = await personOf(api, request)
    const token = formToken(context.config, signed.sessionId, person.organization?.id ?? null)
    const visit = {
      place: request.originalUrl,
      params: request.params as Record<string, string>,
      query: queryOf(request),
      now: new Date(),
      base: publicBase(context.config),
      mailFolder: context.config.tools.mailFolder,
      layouts,
      documents,
      api,
      person,
      token,
      hasFile: (sent?.file ?? null) !== null,
    }
    const isOwn = sent !== null && hasToken(context.config, signed.sessionId, sent.form)
    const shown = sent === null ? await page.get(visit) : await answerForm(page, visit, sent, isOwn)
    show({ request, response, assets }, shown, {
      person,
      token,
      standIns: hostOf(context.config.connections.standIns),
    })
  } finally {
    sent?.release()
  }
}

/** `isOwn`: the form is of this sign-in session. Only a page that keeps its form gets another one. */
async function answerForm(
  page: PageRoute,
  visit: PersonsVisit,
  { form, file }: SentForm,
  isOwn: boolean,
): Promise<Shown> {
  if (page.post === undefined) return page.get(visit)
  if (!isOwn && page.keeps !== undefined) return page.keeps.again(visit, { form, problem: otherSession })
  const { organization: now, organizations } = visit.person
  const id = shownBy(form)
  if (page.holdsEverywhere === true || id === (now?.id ?? null)) return page.post(visit, form)
  const opened = organizations.find((each) => each.id === id)
  if (opened === undefined)
    throw new ApiError(
      'conflict',
      'this form is of a page that showed another organization: load the page again, and send it once more',
    )
  const kept = file === null && page.hasSecrets !== true ? form : null
  return switchedPage({ place: visit.place, token: visit.token, opened, now, kept })
}
