import { z } from 'zod'
import type { Context } from '../../context.ts'
import { docsPage, type Described } from '../docs-page.ts'
import { ApiError } from '../errors.ts'
import { sendPage } from '../html-page.ts'
import { openApiDocument } from '../openapi.ts'
import { publicRoute, type Route } from '../route.ts'

/** The two routes that describe all others, themselves included; both are off with `ENABLE_DOCS=false`. */
export function docsRoutes(all: () => readonly Route[]): Route[] {
  let document: object | undefined
  let page: string | undefined
  return [
    publicRoute({
      key: 'GET /openapi.json',
      summary: 'The OpenAPI description of this service',
      tag: 'Service',
      responses: { 200: z.looseObject({ openapi: z.string(), paths: z.looseObject({}) }) },
      async open(context) {
        requireDocs(context)
        document ??= openApiDocument(all())
        return { status: 200, body: document }
      },
    }),
    publicRoute({
      key: 'GET /docs',
      summary: 'This listing',
      tag: 'Service',
      contentType: 'text/html',
      responses: { 200: null },
      async open(context, _services, _request, response) {
        requireDocs(context)
        document ??= openApiDocument(all())
        page ??= docsPage(all(), document as Described)
        sendPage(response, page)
        return null
      },
    }),
  ]
}

function requireDocs(context: Context): void {
  if (!context.config.http.docs)
    throw new ApiError('not_found', 'the description of this service is turned off')
}
