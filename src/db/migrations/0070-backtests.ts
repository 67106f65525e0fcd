/** A backtest reads the newest decisions of one organization. */
export const backtests = `
create index decisions_newest on decisions (organization_id, decided_at desc, id desc);
`
