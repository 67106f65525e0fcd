import { Connection } from '@temporalio/client'
import type { Config } from '../config.ts'

/** Asks Temporal's health service over one lazy connection. */
export function temporalCheck(config: Config): { check: () => Promise<boolean>; close: () => Promise<void> } {
  const connection = Connection.lazy({
    address: config.temporal.address,
    ...(config.temporal.tls ? { tls: true } : {}),
    ...(config.temporal.apiKey === null ? {} : { apiKey: config.temporal.apiKey }),
  })
  return {
    async check() {
      const { status } = await connection.healthService.check({})
      return status === 1
    },
    close: () => connection.close(),
  }
}
