use super::*;

const S: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn every(period: Duration) -> TickJobBuilder {
    TickJob::every("job", period)
}

#[test]
fn rules_default_to_what_the_setters_say() {
    let table = [
        // job, late limit, retention
        (every(S), S, 60 * S),
        (every(S / 1000), S / 1000, 60 * S),
        (every(60 * S), 60 * S, 600 * S),
        (TickJob::at_instants("job"), 10 * S, 60 * S),
        (every(100 * DAY), 100 * DAY, 365 * DAY),
    ];
    for (builder, late_limit, retention) in table {
        let job = builder.build().unwrap();
        assert_eq!(job.late_limit(), late_limit, "{job:?}");
        assert_eq!(job.retention(), retention, "{job:?}");
        assert_eq!((job.future_limit(), job.allowed_skew()), (5 * S, 5 * S));
        assert_eq!(job.name(), "job");
    }
}

#[test]
fn a_job_without_a_name_or_with_an_impossible_period_is_refused() {
    assert_eq!(
        TickJob::every("", S).build().unwrap_err(),
        TickJobError::NameEmpty
    );
    assert_eq!(
        TickJob::at_instants("").build().unwrap_err(),
        TickJobError::NameEmpty
    );
    for period in [Duration::ZERO, Duration::from_nanos(999_999)] {
        let error = every(period).build().unwrap_err();
        assert_eq!(error, TickJobError::PeriodTooShort { period });
    }
    let period = Duration::MAX;
    let error = every(period).build().unwrap_err();
    assert_eq!(error, TickJobError::PeriodTooLong { period });
}

#[test]
fn a_claim_is_remembered_while_any_instance_may_repeat_it() {
    // 60 s late + 5 s future + twice 5 s of skew.
    let just_enough = every(60 * S).retention(75 * S).build();
    assert_eq!(just_enough.unwrap().retention(), 75 * S);
    let short = every(60 * S).retention(75 * S - S / 1000);
    assert_eq!(
        short.build().unwrap_err().to_string(),
        "retention 74999 ms is below the minimum of 75000 ms: late limit 60000 ms + \
         future limit 5000 ms + twice the allowed skew 5000 ms"
    );
}

#[test]
fn each_limit_counts_towards_the_retention() {
    let tight = || every(60 * S).retention(75 * S);
    let more = Duration::from_nanos(1);
    for builder in [
        tight().late_limit(60 * S + more),
        tight().future_limit(5 * S + more),
        tight().allowed_skew(5 * S + more),
    ] {
        assert!(matches!(
            builder.build(),
            Err(TickJobError::RetentionTooShort { .. })
        ));
    }
}

#[test]
fn the_default_retention_is_checked_too() {
    let error = every(S).late_limit(60 * S).build().unwrap_err();
    assert!(matches!(
        error,
        TickJobError::RetentionTooShort { retention, minimum, .. }
            if retention == 60 * S && minimum == 75 * S
    ));
    // A late limit of a whole year leaves no room for the other limits.
    assert!(every(365 * DAY).build().is_err());
    assert!(every(365 * DAY).late_limit(DAY).build().is_ok());
}

#[test]
fn a_fraction_of_a_millisecond_is_not_remembered() {
    let minimum = 75 * S + Duration::from_micros(1);
    let job = every(S).late_limit(60 * S + Duration::from_micros(1));
    assert!(job.clone().retention(minimum).build().is_err());
    assert!(job.retention(75 * S + S / 1000).build().is_ok());
}

/// An instance that replaces another one catches up the tick that came due meanwhile.
#[test]
fn no_claim_is_forgotten_within_a_minute() {
    let none = || {
        let job = every(S).late_limit(Duration::ZERO);
        job.future_limit(Duration::ZERO)
            .allowed_skew(Duration::ZERO)
    };
    assert!(none().retention(60 * S).build().is_ok());
    for short in [Duration::ZERO, 60 * S - Duration::from_nanos(1)] {
        let error = none().retention(short).build().unwrap_err();
        let minimum = 60 * S;
        let retention = short;
        let expected = TickJobError::RetentionBelowFloor { retention, minimum };
        assert_eq!(error, expected);
    }
    assert_eq!(
        every(S).retention(16 * S).build().unwrap_err().to_string(),
        "retention 16000 ms is below the minimum of 60000 ms"
    );
}

#[test]
fn a_tick_is_never_caught_up_past_the_late_limit() {
    let catch_up = |builder: TickJobBuilder| builder.build().unwrap().catch_up();
    assert_eq!(catch_up(every(S)), S);
    assert_eq!(catch_up(every(DAY)), 30 * S);
    assert_eq!(catch_up(TickJob::at_instants("job")), 10 * S);
    assert_eq!(catch_up(every(DAY).catch_up(DAY)), DAY);
    let error = every(S).catch_up(S + S / 1000).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "catch-up 1001 ms is above the late limit of 1000 ms"
    );
}

#[test]
fn a_random_wait_leaves_half_the_late_limit() {
    assert!(every(S).start_jitter(S / 2).build().is_ok());
    let error = every(S).start_jitter(S / 2 + S / 1000).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "start jitter 501 ms is above half the late limit of 1000 ms"
    );
}

#[test]
fn endless_durations_are_errors_and_never_overflow() {
    let max = Duration::MAX;
    for builder in [
        every(S).late_limit(max),
        every(S).future_limit(max),
        every(S).allowed_skew(max),
        every(S).late_limit(max).future_limit(max).allowed_skew(max),
    ] {
        assert!(matches!(
            builder.build(),
            Err(TickJobError::RetentionTooShort { minimum, .. }) if minimum == max
        ));
    }
    let error = every(S).retention(max).build().unwrap_err();
    assert_eq!(error, TickJobError::RetentionTooLong { retention: max });
}
