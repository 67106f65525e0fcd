import { z } from 'zod'
import type { Context } from '../../governance/context.ts'
import { sendDocsPage } from '../docs-page.ts'
import { ApiError } from '../errors.ts'
import { openApiDocument } from '../openapi.ts'
import { publicRoute, type Route } from '../route.ts'

/**
 * Returns the two routes that describe the API. The description includes these two routes. `ENABLE_DOCS=false` turns
 * both routes off.
 */
export function docsRoutes(all: () => readonly Route[]): Route[] {
  let document: object | undefined
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
      summary: 'This description as a page',
      tag: 'Service',
      contentType: 'text/html',
      responses: { 200: null },
      async open(context, _services, _request, response) {
        requireDocs(context)
        sendDocsPage(response)
        return null
      },
    }),
  ]
}

function requireDocs(context: Pick<Context, 'config'>): void {
  if (!context.config.http.docs)
    throw new ApiError('not_found', 'the description of this service is turned off')
}
