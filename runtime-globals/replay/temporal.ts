import { defineProperty, hidden, IntrinsicDate, IntrinsicIntl } from '../intrinsics.ts';
import { asNative } from '../native.ts';
import { reading } from './clock.ts';

/**
 * `Temporal` whose `Now` takes kept readings of the clock, in ms. V8 builds the namespace at the first look at the
 * global, which costs 0.3 ms, so the global is replaced unseen; here, at its first use, it is put together again from
 * the classes, which are reached through a `Date`.
 */
export function makeTemporal(): object {
  const instant = new IntrinsicDate(0).toTemporalInstant();
  const zoned = instant.toZonedDateTimeISO('UTC');
  const date = zoned.toPlainDate();
  const temporal = {};
  const define = (name: string, value: unknown) => defineProperty(temporal, name, hidden(value));
  define('Now', makeNow(instant.constructor as typeof Temporal.Instant));
  define('PlainDate', date.constructor);
  define('PlainTime', zoned.toPlainTime().constructor);
  define('PlainDateTime', zoned.toPlainDateTime().constructor);
  define('ZonedDateTime', zoned.constructor);
  define('Duration', zoned.since(zoned).constructor);
  define('Instant', instant.constructor);
  define('PlainYearMonth', date.toPlainYearMonth().constructor);
  define('PlainMonthDay', date.toPlainMonthDay().constructor);
  tag(temporal, 'Temporal');
  return temporal;
}

type Zone = Temporal.TimeZoneLike | undefined;

function makeNow({ fromEpochMilliseconds }: typeof Temporal.Instant): object {
  const timeZoneId = () => new IntrinsicIntl.DateTimeFormat().resolvedOptions().timeZone;
  const zonedNow = (zone: Zone) =>
    fromEpochMilliseconds(reading()).toZonedDateTimeISO(zone === undefined ? timeZoneId() : zone);
  const functions = {
    instant: () => fromEpochMilliseconds(reading()),
    timeZoneId: () => timeZoneId(),
    plainDateTimeISO: (zone?: Zone) => zonedNow(zone).toPlainDateTime(),
    zonedDateTimeISO: (zone?: Zone) => zonedNow(zone),
    plainDateISO: (zone?: Zone) => zonedNow(zone).toPlainDate(),
    plainTimeISO: (zone?: Zone) => zonedNow(zone).toPlainTime(),
  };
  const now = {};
  for (const name in functions) {
    const stand = functions[name as keyof typeof functions];
    // Optional parameters do not count for the built-ins.
    defineProperty(stand, 'length', { __proto__: null, value: 0, configurable: true } as PropertyDescriptor);
    defineProperty(now, name, hidden(asNative(name, stand)));
  }
  tag(now, 'Temporal.Now');
  return now;
}

function tag(target: object, name: string): void {
  defineProperty(target, Symbol.toStringTag, {
    __proto__: null,
    value: name,
    configurable: true,
  } as PropertyDescriptor);
}
